//! What was measured on, and how.
use super::Html;
use crate::results::Results;
use crate::units::Bytes;
use serde_json::Value;

/// A block for each file.
pub(crate) fn blocks(html: &mut Html, files: &[Results]) {
    html.leaf("h2", &[], "Machines and settings");
    for file in files {
        html.leaf("h3", &[], &file.name);
        html.list(&entries(file));
    }
}

fn entries(file: &Results) -> Vec<(String, String)> {
    let (host, settings) = (&file.host, &file.settings);
    let version = match &settings.commit {
        Some(commit) => format!("{} ({commit})", settings.version),
        None => settings.version.clone(),
    };
    let known = [
        ("processor", format!("{} x {}", host.cpus, host.cpu)),
        ("memory", Bytes(host.memory_bytes).to_string()),
        ("kernel", host.kernel.clone()),
        ("medium", format!("{} ({})", host.medium, host.file_system)),
        ("measured", date(settings.unix_time_s)),
        ("Esker", version),
        ("seed", settings.seed.to_string()),
    ];
    let known = known.map(|(name, value)| (name.to_owned(), value)).into_iter();
    let options = settings.options.iter().filter(|(_, value)| !value.is_null());
    known.chain(options.map(|(name, value)| (name.replace('_', " "), shown(value)))).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{name} {}", shown(value)));
            members.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Seconds since 1970 as a day and time of the Gregorian calendar, UTC.
pub(super) fn date(unix_time_s: u64) -> String {
    let (days, second) = (unix_time_s / 86_400, unix_time_s % 86_400);
    let (mut year, mut day) = (1970, days);
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02} UTC", day + 1)
}

fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}
