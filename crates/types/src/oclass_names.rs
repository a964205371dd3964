//! Names of object classes, written without `OC_`.
use crate::oclass::{GROUPS_X, ObjectClass, REDUNDANCIES, Redundancy};

const GROUPS: [u32; 9] = [1, 2, 4, 6, 8, 12, 16, 32, GROUPS_X];

const LEGACY: [(&str, u32); 17] = [
    ("TINY", 51),
    ("SMALL", 52),
    ("LARGE", 53),
    ("MAX", 54),
    ("RP_TINY", 60),
    ("RP_SMALL", 61),
    ("RP_LARGE", 62),
    ("RP_MAX", 63),
    ("RP_SF_TINY", 70),
    ("RP_SF_SMALL", 71),
    ("RP_SF_LARGE", 72),
    ("RP_SF_MAX", 73),
    ("RP_XSF", 80),
    ("EC_TINY", 100),
    ("EC_SMALL", 101),
    ("EC_LARGE", 102),
    ("EC_MAX", 103),
];

/// Every class that has a name of its own, with its name.
pub fn all() -> impl Iterator<Item = (String, ObjectClass)> {
    let legacy = LEGACY.iter().map(|&(name, id)| (name.to_owned(), ObjectClass::from_code(id)));
    legacy.chain(REDUNDANCIES.iter().flat_map(|&(code, redundancy)| {
        GROUPS.iter().filter(move |groups| exists(redundancy, **groups)).map(move |&groups| {
            let class = ObjectClass::from_code(code << 24 | groups);
            (compose(redundancy, groups), class)
        })
    }))
}

/// Wide replication comes in one group only, and eight copies have no class at all.
fn exists(redundancy: Redundancy, groups: u32) -> bool {
    match redundancy {
        Redundancy::Replicas(8) => false,
        Redundancy::Replicas(copies) if copies > 8 => groups == 1,
        _ => true,
    }
}

fn compose(redundancy: Redundancy, groups: u32) -> String {
    let groups = match groups {
        GROUPS_X => "X".to_owned(),
        number => number.to_string(),
    };
    match redundancy {
        Redundancy::Replicas(1) => format!("S{groups}"),
        Redundancy::Replicas(copies) => format!("RP_{copies}G{groups}"),
        Redundancy::ErasureCode { data, parity } => format!("EC_{data}P{parity}G{groups}"),
    }
}

/// The name of `class`; fitted classes are named after their groups.
pub(crate) fn name_of(class: ObjectClass) -> Option<String> {
    if let Some((name, _)) = LEGACY.iter().find(|(_, id)| *id == class.code()) {
        return Some((*name).to_owned());
    }
    (class.groups() > 0).then(|| class.redundancy().map(|r| compose(r, class.groups())))?
}
