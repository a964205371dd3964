//! Learned identities equal those of ecCodes, for messages that ecCodes makes.
use esker_fields::Key;
use esker_fields::eccodes::{Draft, Library};
use esker_fields::grib::{EcCodes, Identify, Learned, Messages};
use esker_testing::Random;
use std::fs::File;
use std::time::{Duration, Instant};

/// Environment variable that names a folder with GRIB files of the user's own.
const FOLDER: &str = "ESKER_GRIB_DIR";

/// ecCodes and its identities, or none with a line that says why.
fn eccodes() -> Option<(&'static Library, EcCodes)> {
    let found = Library::shared().and_then(|library| Ok((library, EcCodes::new()?)));
    found.inspect_err(|error| esker_testing::skip(error)).ok()
}

/// Random numbers from the seed of the run, which is printed.
fn random() -> Random {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    Random::new(seed, 0)
}

/// A random element.
fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// Samples that every release of ecCodes has.
const SAMPLES: [&str; 8] = [
    "GRIB1",
    "GRIB2",
    "regular_ll_pl_grib1",
    "regular_ll_pl_grib2",
    "regular_ll_sfc_grib1",
    "regular_ll_sfc_grib2",
    "reduced_gg_ml_grib1",
    "reduced_gg_ml_grib2",
];

/// Types of levels, the most common first.
const LEVELS: [&str; 12] = [
    "isobaricInhPa",
    "hybrid",
    "surface",
    "heightAboveGround",
    "isobaricInPa",
    "theta",
    "meanSea",
    "potentialVorticity",
    "depthBelowLandLayer",
    "isobaricLayer",
    "soilLayer",
    "hybridLayer",
];
const PARAMS: [i64; 14] =
    [129, 130, 131, 133, 152, 165, 167, 134, 228, 151, 228_228, 260_074, 140_251, 3_062];
const TYPES: [&str; 9] = ["an", "fc", "pf", "cf", "em", "es", "fcmean", "4v", "ep"];
const STREAMS: [&str; 11] =
    ["oper", "enfo", "enda", "wave", "moda", "mnth", "enfh", "efhs", "msmm", "waef", "scda"];

/// A random element of `from`, or unless `odd` one of the first `common`.
fn pick_from<T: Copy>(random: &mut Random, odd: bool, common: usize, from: &[T]) -> T {
    pick(random, if odd { from } else { &from[..common] })
}

/// Sets the keys that determine the kind of a message. Keys that ecCodes refuses in this combination stay unchanged.
fn set_kind(draft: &mut Draft<'_>, random: &mut Random, odd: bool) {
    let longs = [
        ("centre", pick_from(random, odd, 5, &[98, 98, 98, 98, 7, 78, 34, 85])),
        (
            "productionStatusOfProcessedData",
            pick_from(random, odd, 3, &[0, 0, 2, 3, 4, 6, 8, 10, 12]),
        ),
        (
            "productDefinitionTemplateNumber",
            pick_from(random, odd, 4, &[0, 1, 0, 1, 8, 11, 2, 12, 40, 60]),
        ),
        ("indicatorOfUnitOfTimeRange", pick_from(random, odd, 1, &[1, 1, 0, 2, 11, 13])),
        ("timeRangeIndicator", pick_from(random, odd, 2, &[0, 10, 1, 2, 3, 4, 13, 123])),
        ("setLocalDefinition", random.below(4).min(1) as i64),
        ("localDefinitionNumber", pick_from(random, odd, 3, &[1, 1, 26, 16, 30, 13, 36, 15])),
        ("referenceDate", pick(random, &[20_200_101, 19_870_611])),
        ("numberOfForecastsInEnsemble", pick(random, &[0, 51])),
    ];
    for (key, value) in longs {
        let _ = draft.set_long(key, value);
    }
    let _ = draft.set_text("marsClass", pick(random, &["od", "ea", "rd", "c3", "ti"]));
    let _ = draft.set_text("marsType", pick_from(random, odd, 4, &TYPES));
    let _ = draft.set_text("marsStream", pick_from(random, odd, 3, &STREAMS));
    let _ = draft.set_text("expver", pick(random, &["0001", "abcd", "1"]));
    let _ = draft.set_long("paramId", pick(random, &PARAMS));
    let _ = draft.set_text("typeOfLevel", pick_from(random, odd, 4, &LEVELS));
    let _ = draft.set_long("bitsPerValue", pick(random, &[0, 16, 24]));
}

/// Sets the quantities that differ between messages of one kind.
fn set_quantities(draft: &mut Draft<'_>, random: &mut Random) {
    let year = if random.one_in(20) { 1000 + random.below(2000) } else { 1950 + random.below(100) };
    let date = year * 10_000 + (1 + random.below(12)) * 100 + 1 + random.below(28);
    let _ = draft.set_long("dataDate", date as i64);
    let minutes = if random.one_in(4) { random.below(60) } else { 0 };
    let _ = draft.set_long("dataTime", (random.below(24) * 100 + minutes) as i64);
    let _ = draft.set_long(
        "step",
        pick(random, &[0, 1, 3, 6, 9, 24, 48, 93, 186, 240, 251, 255, 256, 2000]),
    );
    // At the surface and at heights a kind has one level.
    if matches!(draft.text("typeOfLevel").as_deref(), Ok("isobaricInhPa" | "hybrid")) {
        let levels = [0, 1, 2, 10, 50, 70, 100, 137, 200, 300, 400, 500, 700, 850, 1000, 5000];
        let _ = draft.set_long("level", pick(random, &levels));
    }
    let _ = draft.set_long(
        "perturbationNumber",
        pick(random, &[0, 1, 2, 3, 4, 5, 10, 20, 37, 50, 249, 254, 255]),
    );
}

/// Sets some keys to rare values.
fn set_oddities(draft: &mut Draft<'_>, random: &mut Random) {
    let step = pick(random, &[0, 3, 24, 240, 2000]);
    let (day, second) = (pick(random, &[0, 31, 255]), pick(random, &[0, 30]));
    let odd =
        [("day", day), ("month", 255), ("yearOfCentury", 100), ("hour", 24), ("second", second)];
    for (key, value) in odd {
        let _ = random.one_in(10).then(|| draft.set_long(key, value));
    }
    let _ = match random.below(4) {
        0 => draft.set_text("stepRange", &format!("{step}-{}", step + 6)),
        1 => draft.set_long("forecastTime", pick(random, &[step, -6, 1 << 20])),
        2 => draft.set_long("P1", step.min(255)),
        _ => draft.set_long("P2", pick(random, &[0, 7])),
    };
    let _ = draft.set_long("level", pick(random, &[0, 2, 10, 100, 850]));
    if random.one_in(10) {
        let _ = draft.set_long("scaleFactorOfFirstFixedSurface", pick(random, &[-2, 1, 3]));
    }
}

/// Changes an octet somewhere before the data.
fn mutate(message: &mut [u8], random: &mut Random) {
    let edition_1 = message[7] == 1;
    let (start, len) = if edition_1 { (11, 50) } else { (6, 120) };
    let at = start + random.below(len) as usize;
    // Does not change lengths, because framing would refuse the message.
    let is_length = if edition_1 { (36..40).contains(&at) } else { (7..21).contains(&at) };
    if at < message.len() && !is_length {
        message[at] = random.draw() as u8;
    }
}

#[test]
fn learned_identities_are_those_of_eccodes() {
    let Some((library, direct)) = eccodes() else { return };
    let mut random = random();
    let learned = Learned::new(direct);
    let mut identities = 0;
    for kind in 0..40 {
        let mut draft = library.sample(pick(&mut random, &SAMPLES)).unwrap();
        let odd = random.one_in(2);
        set_kind(&mut draft, &mut random, odd);
        for _ in 0..if odd { 12 } else { 40 } {
            set_quantities(&mut draft, &mut random);
            if odd {
                set_oddities(&mut draft, &mut random);
            }
            let mut message = draft.message().unwrap();
            if odd && random.one_in(3) {
                mutate(&mut message, &mut random);
            }
            let key = same(&learned, &direct, &message, &format!("kind {kind}"));
            identities += usize::from(key.is_some());
        }
    }
    println!("{identities} identities, asked {} times", learned.asked());
    assert!(identities > 300, "{identities}");
}

/// The identity of a message. Both identifiers must give the same, twice.
fn same(learned: &Learned<EcCodes>, direct: &EcCodes, message: &[u8], what: &str) -> Option<Key> {
    let expected = direct.identify(message).ok();
    for time in ["first", "second"] {
        let key = learned.identify(message).ok();
        assert_eq!(key, expected, "{what}, {time} time: {:x?}", &message[..message.len().min(200)]);
    }
    expected
}

#[test]
fn a_forecast_is_learned_from_few_messages() {
    let Some((library, direct)) = eccodes() else { return };
    for (sample, params) in
        [("regular_ll_pl_grib1", [129, 130]), ("regular_ll_pl_grib2", [129, 130])]
    {
        let learned = Learned::new(direct);
        let mut draft = library.sample(sample).unwrap();
        let _ = draft.set_long("productDefinitionTemplateNumber", 1);
        let _ = draft.set_long("setLocalDefinition", 1);
        draft.set_text("marsType", "pf").unwrap();
        draft.set_text("marsStream", "enfo").unwrap();
        let mut fields = 0;
        for param in params {
            draft.set_long("paramId", param).unwrap();
            for (level, step, number) in
                (0..60).map(|index| (100 + index * 10, 1 + index % 7, 1 + index % 5))
            {
                draft.set_long("level", level).unwrap();
                draft.set_long("step", step).unwrap();
                draft.set_long("perturbationNumber", number).unwrap();
                let key = same(&learned, &direct, &draft.message().unwrap(), sample).unwrap();
                assert_eq!(key.get("levelist"), Some(&*level.to_string()));
                assert_eq!(key.get("step"), Some(&*step.to_string()));
                assert_eq!(key.get("number"), Some(&*number.to_string()));
                assert_eq!(key.get("param"), Some(&*param.to_string()));
                fields += 1;
            }
        }
        assert_eq!((fields, learned.asked()), (120, 8), "{sample}");
    }
}

#[test]
fn learned_identities_of_user_files_are_those_of_eccodes() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return esker_testing::skip(format_args!("{FOLDER} is not set"));
    };
    let Some((_, direct)) = eccodes() else { return };
    let learned = Learned::new(direct);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let (mut fields, mut end) = (0, 0);
        let mut messages = Messages::new(File::open(&path).unwrap());
        for message in messages.by_ref() {
            let message = match message {
                Ok(message) => message,
                Err(error) => {
                    println!("{}: {error}", path.display());
                    continue;
                }
            };
            let at = message.offset as usize;
            assert!(at >= end && bytes[at..].starts_with(&message.bytes));
            end = at + message.bytes.len();
            let key = same(&learned, &direct, &message.bytes, &path.display().to_string());
            if fields == 0 {
                println!("{}: {}", path.display(), key.unwrap_or_default());
            }
            fields += 1;
        }
        println!("{}: {fields} fields, {:?}", path.display(), messages.skipped());
    }
    println!("asked {} times", learned.asked());
}

/// Run by hand: `cargo test --release -p esker-fields --test grib_learned -- --ignored --nocapture`.
#[test]
#[ignore = "measures; prints times and asserts nothing about them"]
fn times_of_an_identity() {
    let Some((library, direct)) = eccodes() else { return };
    println!("ecCodes {}", library.version());
    for sample in ["regular_ll_pl_grib1", "regular_ll_pl_grib2", "reduced_gg_ml_grib2"] {
        let mut draft = library.sample(sample).unwrap();
        if sample.starts_with("regular") {
            for (key, value) in [("Ni", 1000), ("Nj", 524), ("bitsPerValue", 16)] {
                draft.set_long(key, value).unwrap();
            }
            let values: Vec<_> = (0..524_000).map(|index| f64::from(index % 1000)).collect();
            draft.set_values(&values).unwrap();
        }
        let _ = draft.set_long("step", 6);
        let message = draft.message().unwrap();
        let learned = Learned::new(direct);
        // A second message of the kind, so that its rule is learned.
        let _ = draft.set_long("step", 12);
        learned.identify(&draft.message().unwrap()).unwrap();
        let first = time(1, || learned.identify(&message).unwrap());
        let by_eccodes = time(300, || direct.identify(&message).unwrap());
        let by_learned = time(300_000, || learned.identify(&message).unwrap());
        println!(
            "{sample}, {} bytes: ecCodes {by_eccodes:?}, learned {by_learned:?} ({:.0} times), learning {first:?}",
            message.len(),
            by_eccodes.as_secs_f64() / by_learned.as_secs_f64()
        );
    }
}

/// The mean time of a call, over `times` calls.
fn time(times: u32, mut call: impl FnMut() -> Key) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        std::hint::black_box(call());
    }
    start.elapsed() / times
}
