//! Lists of hosts: in options, in host files and in the variables of job schedulers.
use esker::types::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::path::Path;

/// Hosts of one bracket expression.
const HOSTS_MAX: usize = 1 << 16;

/// Hosts in a list such as `n1,n2` or `n[001-003,7],login`.
///
/// # Errors
/// `Invalid` for brackets that do not match, and for invalid ranges.
pub(crate) fn parse_list(text: &str) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for word in split_outside_brackets(text) {
        let word = word.trim();
        if !word.is_empty() {
            expand(word, &mut hosts).ok_or_else(|| not_a_list(word))?;
        }
    }
    Ok(hosts)
}

#[cold]
fn not_a_list(word: &str) -> Error {
    let message = format!("{word:?} is not a valid host list: write n1,n2 or n[001-003,7]");
    Error::new(ErrorKind::Invalid, message)
}

/// Splits a list of hosts at its commas, except those within brackets, as in `node[1,3]`.
fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth <= 0
    })
    .collect()
}

/// Appends the hosts that a word such as `node[01-16]` names. Expands the first brackets, and further ones by
/// recursion. None if the word is not valid or there would be too many hosts.
fn expand(word: &str, hosts: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = word.split_once('[') else {
        let is_host = !word.contains([']', ' ']) && hosts.len() < HOSTS_MAX;
        is_host.then(|| hosts.push(word.to_owned()))?;
        return Some(());
    };
    let (ranges, after) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return None;
        }
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        // Numbers are as wide as the first one is written.
        let width = first.len();
        for number in from..=to {
            expand(&format!("{before}{number:0width$}{after}"), hosts)?;
        }
        if from > to {
            return None;
        }
    }
    Some(())
}

/// Hosts in the text of a host file of MPI, PBS or Grid Engine: the first word of each line, without `:SLOTS`. What
/// comes after `#` is a comment. A host that has several lines, or slots, is in the list once.
pub(crate) fn parse_file(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.filter_map(|line| line.split([' ', '\t', ',']).find(|word| !word.is_empty()));
    distinct(names.map(without_slots))
}

/// The host without a number of slots, as in `node1:4`.
fn without_slots(word: &str) -> &str {
    match word.rsplit_once(':') {
        // An IPv6 address has more than one colon.
        Some((host, _)) if !host.contains(':') => host,
        _ => word,
    }
}

fn distinct<'t>(names: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
}

/// Reads a host file.
///
/// # Errors
/// `Io` if the file cannot be read.
pub(crate) fn read_file(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))?;
    Ok(parse_file(&text))
}

/// The hosts of the job that this process belongs to, by the variables of Slurm, PBS, LSF, Grid Engine and OAR.
///
/// # Errors
/// `NotFound` outside any job.
pub(crate) fn hosts_of_job(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<String>> {
    if let Some(list) = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST")) {
        return parse_list(&list);
    }
    for name in ["PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "OAR_NODEFILE"] {
        if let Some(path) = variable(name) {
            return read_file(Path::new(&path));
        }
    }
    if let Some(list) = variable("LSB_MCPU_HOSTS") {
        // Each host is followed by its number of slots.
        return Ok(distinct(list.split_whitespace().step_by(2)));
    }
    if let Some(list) = variable("LSB_HOSTS") {
        return Ok(distinct(list.split_whitespace()));
    }
    let message = "this is not a job of Slurm, PBS, LSF, Grid Engine or OAR: name the nodes with --hosts or --hostfile, \
        or try a pool over nodes on this machine with --launcher local";
    Err(Error::new(ErrorKind::NotFound, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> String {
        parse_list(text).unwrap().join(" ")
    }

    #[test]
    fn lists_are_expanded_as_slurm_writes_them() {
        for (text, hosts) in [
            ("", ""),
            ("n1", "n1"),
            ("n1,n2,", "n1 n2"),
            ("n[001-003,7]", "n001 n002 n003 n7"),
            ("n[9-11],login", "n9 n10 n11 login"),
            ("r[1-2]n[01-02]-ib", "r1n01-ib r1n02-ib r2n01-ib r2n02-ib"),
            ("[1-2]", "1 2"),
            ("fe80::1,10.0.0.1", "fe80::1 10.0.0.1"),
        ] {
            assert_eq!(list(text), hosts, "{text}");
        }
    }

    #[test]
    fn invalid_host_lists_are_refused() {
        let wrong = ["n[1-", "n[]", "n[a-b]", "n[3-1]", "n]1[", "n1]", "n[1-2", "n[0-99999999]"];
        for text in wrong {
            assert_eq!(parse_list(text).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn host_files_name_each_host_once() {
        let text = "# nodes\nn1 slots=4 max_slots=8\nn2:8\n\n\tn3  # spare\nn1\n[::1]\nn4 2 all.q@n4 UNDEFINED\n";
        assert_eq!(parse_file(text), ["n1", "n2", "n3", "[::1]", "n4"]);
    }

    #[test]
    fn hosts_of_a_job_are_read_from_its_variables() {
        let told = |name: &'static str, value: &'static str| {
            hosts_of_job(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(told("SLURM_JOB_NODELIST", "n[1-2]").unwrap(), ["n1", "n2"]);
        assert_eq!(told("LSB_MCPU_HOSTS", "n1 4 n2 8").unwrap(), ["n1", "n2"]);
        assert_eq!(told("LSB_HOSTS", "n1 n1 n2").unwrap(), ["n1", "n2"]);
        let outside = told("HOME", "n1").unwrap_err();
        assert_eq!(outside.kind(), ErrorKind::NotFound);
        assert!(outside.message().contains("--launcher local"), "{outside}");
        assert!(told("PBS_NODEFILE", "/none/such").is_err());
    }
}
