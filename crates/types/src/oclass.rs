//! Object classes: the distribution of an object over targets (DAOS: `daos_oclass_id_t`).
//!
//! A class id holds a redundancy code in bits 31..24 and a number of groups in bits 15..0. Ids below
//! 2^24 are the older, named classes. A class of as many groups as fit (`GX`) is fitted to the pool
//! when an object id is generated.
use crate::ObjectType;
use crate::limits::TARGETS_MAX;
use std::fmt;

/// A class of objects, by its DAOS id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectClass(u32);

/// Protection of data in a group of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Number of copies; one means no protection.
    Replicas(u32),
    /// Reed-Solomon: data cells and parity cells.
    ErasureCode {
        /// Data cells.
        data: u32,
        /// Parity cells.
        parity: u32,
    },
}

impl Redundancy {
    /// Targets one group takes.
    #[must_use]
    pub fn group_size(self) -> u32 {
        match self {
            Self::Replicas(copies) => copies,
            Self::ErasureCode { data, parity } => data + parity,
        }
    }

    /// True if DAOS has a class with this redundancy and `groups` groups. With more than eight copies it has one group
    /// only, and with eight none.
    fn is_named(self, groups: u32) -> bool {
        match self {
            Self::Replicas(8) => false,
            Self::Replicas(copies) if copies > 8 => groups == 1,
            _ => true,
        }
    }

    /// Name of a class in DAOS's form, such as `S1`, `RP_2G1` or `EC_4P2GX`.
    fn class_name(self, groups: u32) -> String {
        let groups = match groups {
            GROUPS_X => "X".to_owned(),
            number => number.to_string(),
        };
        match self {
            Self::Replicas(1) => format!("S{groups}"),
            Self::Replicas(copies) => format!("RP_{copies}G{groups}"),
            Self::ErasureCode { data, parity } => format!("EC_{data}P{parity}G{groups}"),
        }
    }
}

/// Reason for which a class cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassError {
    /// No class has this id.
    Unknown,
    /// It asks for more targets or fault domains than the pool has.
    DoesNotFit,
}

/// The number of groups that means "as many as fit".
const GROUPS_X: u32 = 0xffff;
const REDUNDANCY_SHIFT: u32 = 24;
/// Ids from this one on have the redundancy code and the number of groups in their bits.
const FIRST_NEW_STYLE: u32 = 1 << REDUNDANCY_SHIFT;
/// Redundancy code of a single copy.
const SINGLE: u32 = 1;
/// Id of the class `RP_XSF`.
const RP_XSF: u32 = 80;

/// Redundancy codes and their meaning (DAOS: `enum daos_obj_redun`).
const REDUNDANCIES: [(u32, Redundancy); 25] = {
    use Redundancy::{ErasureCode as Ec, Replicas as Rp};
    [
        (SINGLE, Rp(1)),
        (8, Rp(2)),
        (9, Rp(3)),
        (10, Rp(4)),
        (11, Rp(5)),
        (12, Rp(6)),
        (13, Rp(8)),
        (14, Rp(12)),
        (15, Rp(16)),
        (16, Rp(24)),
        (17, Rp(32)),
        (18, Rp(48)),
        (19, Rp(64)),
        (20, Rp(128)),
        (32, Ec { data: 2, parity: 1 }),
        (33, Ec { data: 2, parity: 2 }),
        (34, Ec { data: 4, parity: 1 }),
        (35, Ec { data: 4, parity: 2 }),
        (36, Ec { data: 8, parity: 1 }),
        (37, Ec { data: 8, parity: 2 }),
        (38, Ec { data: 16, parity: 1 }),
        (39, Ec { data: 16, parity: 2 }),
        (40, Ec { data: 4, parity: 3 }),
        (41, Ec { data: 8, parity: 3 }),
        (42, Ec { data: 16, parity: 3 }),
    ]
};

/// Older classes: name, id, redundancy code, groups (TINY 1, SMALL 4, LARGE 128, MAX as many as fit). `RP_XSF` has as
/// many copies as the pool has domains, so it has neither.
const LEGACY: [(&str, u32, u32, u32); 17] = [
    ("TINY", 51, SINGLE, 1),
    ("SMALL", 52, SINGLE, 4),
    ("LARGE", 53, SINGLE, 128),
    ("MAX", 54, SINGLE, GROUPS_X),
    ("RP_TINY", 60, 8, 1),
    ("RP_SMALL", 61, 8, 4),
    ("RP_LARGE", 62, 8, 128),
    ("RP_MAX", 63, 8, GROUPS_X),
    ("RP_SF_TINY", 70, 14, 1),
    ("RP_SF_SMALL", 71, 14, 4),
    ("RP_SF_LARGE", 72, 14, 128),
    ("RP_SF_MAX", 73, 14, GROUPS_X),
    ("RP_XSF", RP_XSF, 0, 0),
    ("EC_TINY", 100, 36, 1),
    ("EC_SMALL", 101, 36, 4),
    ("EC_LARGE", 102, 36, 128),
    ("EC_MAX", 103, 36, GROUPS_X),
];

/// Numbers of groups of the classes with a predefined name.
const NAMED_GROUPS: [u32; 9] = [1, 2, 4, 6, 8, 12, 16, 32, GROUPS_X];

impl ObjectClass {
    /// One target.
    pub const S1: Self = Self(0x0100_0001);
    /// Two targets.
    pub const S2: Self = Self(0x0100_0002);
    /// Every target.
    pub const SX: Self = Self(0x0100_ffff);

    /// The class with this DAOS id. [`ObjectClass::fit`] detects unknown ids.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        Self(code)
    }

    /// The DAOS id of the class.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.0
    }

    /// The class of this name, written without `OC_` (`S1`, `SX`, `RP_2G1`, `EC_4P2GX`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::named().find(|(known, _)| known == name).map(|(_, class)| class)
    }

    /// Every class with a predefined name (without `OC_`), with that name.
    pub fn named() -> impl Iterator<Item = (String, Self)> {
        let legacy = LEGACY.iter().map(|&(name, id, ..)| (name.to_owned(), Self(id)));
        legacy.chain(REDUNDANCIES.iter().flat_map(|&(code, redundancy)| {
            let groups = NAMED_GROUPS.iter().filter(move |groups| redundancy.is_named(**groups));
            groups.map(move |&groups| {
                (redundancy.class_name(groups), Self(code << REDUNDANCY_SHIFT | groups))
            })
        }))
    }

    /// Every class that an object may have in a pool of `targets` targets in `domains` fault domains. It includes the
    /// classes of objects that were copied from a pool of up to [`TARGETS_MAX`] targets.
    pub fn possible(targets: u32, domains: u32) -> impl Iterator<Item = Self> {
        let single = (1..=TARGETS_MAX as u32).map(|groups| Self::S1.with_groups(groups));
        let legacy = LEGACY.iter().map(|&(_, id, ..)| Self(id));
        let fits = move |size: u32| (2..=targets.min(domains)).contains(&size);
        let protected = REDUNDANCIES.iter().map(|&(code, kind)| (code, kind.group_size()));
        let protected =
            protected.filter(move |&(_, size)| fits(size)).flat_map(move |(code, size)| {
                (1..=targets / size).map(move |groups| Self(code << REDUNDANCY_SHIFT | groups))
            });
        single.chain(legacy).chain(protected)
    }

    /// The name of the class without `OC_`; a fitted class is named after its groups. `None` if unknown.
    #[must_use]
    pub fn name(self) -> Option<String> {
        if let Some((name, ..)) = LEGACY.iter().find(|(_, id, ..)| *id == self.0) {
            return Some((*name).to_owned());
        }
        let redundancy = self.redundancy().filter(|_| self.groups() > 0)?;
        Some(redundancy.class_name(self.groups()))
    }

    /// Bits 31..24: the redundancy code, zero for older classes.
    #[must_use]
    pub const fn redundancy_code(self) -> u32 {
        self.0 >> REDUNDANCY_SHIFT
    }

    /// Bits 15..0: groups as written in the id; the id itself for older classes.
    #[must_use]
    pub const fn groups(self) -> u32 {
        self.0 & 0xffff
    }

    /// Protection of data in one of its groups; `None` for an unknown class.
    #[must_use]
    pub fn redundancy(self) -> Option<Redundancy> {
        let code = self.resolved().0;
        REDUNDANCIES.iter().find(|(known, _)| *known == code).map(|(_, redundancy)| *redundancy)
    }

    /// Returns the redundancy code and the number of groups. For a class of the old style, returns those of the
    /// equivalent new one, or 0 for an unknown class.
    fn resolved(self) -> (u32, u32) {
        if self.0 >= FIRST_NEW_STYLE {
            return (self.redundancy_code(), self.groups());
        }
        let legacy = LEGACY.iter().find(|(_, id, ..)| *id == self.0);
        legacy.map_or((0, 0), |&(_, _, redundancy, groups)| (redundancy, groups))
    }

    /// The class as a pool of `targets` targets in `domains` fault domains can hold it: `GX` becomes a number of
    /// groups. Older classes keep their id. A redundancy factor of the pool does not reduce the groups of classes with
    /// a single copy.
    ///
    /// # Errors
    /// [`ClassError::Unknown`], or [`ClassError::DoesNotFit`] if groups times group size exceed the targets, or a group
    /// exceeds the domains.
    pub fn fit(self, targets: u32, domains: u32) -> Result<Self, ClassError> {
        if self.0 == RP_XSF {
            return if domains >= 2 { Ok(self) } else { Err(ClassError::DoesNotFit) };
        }
        let size = self.redundancy().ok_or(ClassError::Unknown)?.group_size();
        let groups = self.resolved().1;
        if groups == 0 {
            return Err(ClassError::Unknown);
        }
        if size > domains.max(1) || size > targets {
            return Err(ClassError::DoesNotFit);
        }
        match groups {
            GROUPS_X => Ok(self.with_groups(targets / size)),
            _ if groups * size > targets => Err(ClassError::DoesNotFit),
            _ => Ok(self),
        }
    }

    /// True if DAOS opens objects of this class in a pool of `targets` targets in `domains` fault domains. The class
    /// must fit unchanged, and DAOS must know it. DAOS knows none of the older classes but `RP_XSF`, and none of more
    /// than six copies.
    #[must_use]
    pub fn opens_in_daos(self, targets: u32, domains: u32) -> bool {
        let is_known = match self.redundancy() {
            // Neither `RP_XSF` nor an unknown class has a redundancy code.
            None => self.0 == RP_XSF,
            Some(Redundancy::Replicas(copies)) => self.0 >= FIRST_NEW_STYLE && copies <= 6,
            Some(Redundancy::ErasureCode { .. }) => self.0 >= FIRST_NEW_STYLE,
        };
        is_known && self.fit(targets, domains) == Ok(self)
    }

    /// Returns this class with another number of groups. A class of the old style is unchanged, because it has no such
    /// number.
    fn with_groups(self, groups: u32) -> Self {
        if self.0 < FIRST_NEW_STYLE {
            return self;
        }
        Self(self.redundancy_code() << REDUNDANCY_SHIFT | groups.clamp(1, GROUPS_X - 1))
    }

    /// Number of groups of an object of this (fitted) class in a pool of `targets` targets, at least 1.
    #[must_use]
    pub fn groups_on(self, targets: u32) -> u32 {
        let size = self.redundancy().map_or(1, Redundancy::group_size).max(1);
        self.resolved().1.clamp(1, (targets / size).max(1))
    }

    /// The class that DAOS chooses if the user names none, in a pool of `targets` targets with single copies. Without
    /// `hints` (`DAOS_OCH_SHD_*` bits), Arrays and Key-Values are spread over all targets, other objects are on one.
    #[must_use]
    pub fn automatic(otype: ObjectType, hints: u32, targets: u32) -> Self {
        let share = |least: u32, percent: u32| least.max(targets * percent / 100).min(targets);
        let groups = match hints >> SHARDING_SHIFT & SHARDING_MASK {
            SHARDING_TINY => 1,
            SHARDING_REGULAR => share(128, 25),
            SHARDING_HIGH => share(256, 50),
            SHARDING_EXTREME => share(1024, 70),
            SHARDING_MAX => targets,
            _ if otype.is_flat() => targets,
            _ => 1,
        };
        Self::S1.with_groups(groups)
    }
}

const SHARDING_SHIFT: u32 = 4;
const SHARDING_MASK: u32 = 0x3f;
const SHARDING_TINY: u32 = 1 << 1;
const SHARDING_REGULAR: u32 = 1 << 2;
const SHARDING_HIGH: u32 = 1 << 3;
const SHARDING_EXTREME: u32 = 1 << 4;
const SHARDING_MAX: u32 = 1 << 5;

impl fmt::Display for ObjectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(&name),
            None => write!(f, "UNKNOWN({:#x})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_agree_with_daos() {
        let known = [
            ("S1", 0x0100_0001),
            ("SX", 0x0100_ffff),
            ("RP_2GX", 0x0800_ffff),
            ("RP_12G1", 0x0e00_0001),
            ("RP_128G1", 0x1400_0001),
            ("EC_2P1G1", 0x2000_0001),
            ("EC_16P3G1", 0x2a00_0001),
            ("EC_8P2GX", 0x2500_ffff),
            ("TINY", 51),
            ("RP_XSF", 80),
        ];
        for (name, code) in known {
            assert_eq!(ObjectClass::from_name(name), Some(ObjectClass(code)), "{name}");
            assert_eq!(ObjectClass(code).name().as_deref(), Some(name));
        }
        assert_eq!(ObjectClass::from_name("OC_S1"), None);
        assert_eq!(ObjectClass(0x0100_0010).name().as_deref(), Some("S16"));
        assert_eq!(ObjectClass(0x0100_0003).name().as_deref(), Some("S3"));
        assert_eq!(ObjectClass(0).name(), None);
    }

    #[test]
    fn daos_opens_only_classes_that_it_knows_and_that_fit() {
        let opens = |name, targets, domains| {
            ObjectClass::from_name(name).unwrap().opens_in_daos(targets, domains)
        };
        assert!(opens("S1", 1, 1) && opens("RP_6G1", 6, 6) && opens("EC_16P3G1", 19, 19));
        assert!(opens("RP_XSF", 2, 2) && !opens("RP_XSF", 2, 1) && !opens("SX", 4, 1));
        assert!(!opens("TINY", 1, 1) && !opens("MAX", 4, 1) && !opens("RP_TINY", 4, 4));
        assert!(!opens("RP_12G1", 64, 64) && !opens("EC_TINY", 64, 64) && !opens("S2", 1, 1));
    }

    #[test]
    fn classes_are_fitted_to_the_pool() {
        assert_eq!(ObjectClass::SX.fit(4, 1), Ok(ObjectClass(0x0100_0004)));
        assert_eq!(ObjectClass::S2.fit(1, 1), Err(ClassError::DoesNotFit));
        assert_eq!(ObjectClass::S2.fit(2, 1), Ok(ObjectClass::S2));
        assert_eq!(ObjectClass(0x0800_0001).fit(8, 1), Err(ClassError::DoesNotFit));
        assert_eq!(ObjectClass(0x0800_ffff).fit(8, 4), Ok(ObjectClass(0x0800_0004)));
        assert_eq!(ObjectClass(0x0700_0001).fit(8, 8), Err(ClassError::Unknown));
        assert_eq!(ObjectClass(0).fit(8, 8), Err(ClassError::Unknown));
        assert_eq!(ObjectClass(54).groups_on(4), 4);
    }

    #[test]
    fn every_class_that_fits_is_possible() {
        for (targets, domains) in [(1, 1), (8, 1), (8, 8), (64, 4)] {
            let possible: Vec<_> = ObjectClass::possible(targets, domains).collect();
            for (name, class) in ObjectClass::named() {
                let Ok(fitted) = class.fit(targets, domains) else { continue };
                assert!(
                    possible.contains(&fitted),
                    "{name} on {targets} targets, {domains} domains"
                );
            }
        }
        let widest = ObjectClass::SX.fit(64, 1).unwrap();
        assert!(ObjectClass::possible(1, 1).any(|class| class == widest));
    }

    #[test]
    fn automatic_class_depends_on_type_and_hints() {
        assert_eq!(ObjectClass::automatic(ObjectType::Array, 0, 4).groups(), 4);
        assert_eq!(ObjectClass::automatic(ObjectType::MultiHashed, 0, 4).groups(), 1);
        let max = SHARDING_MAX << SHARDING_SHIFT;
        assert_eq!(ObjectClass::automatic(ObjectType::MultiHashed, max, 4).groups(), 4);
    }
}
