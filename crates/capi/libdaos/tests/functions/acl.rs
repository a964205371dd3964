//! Access control lists through the C functions.
use crate::common::*;
use daos::abi::{Bytes, PropEntry, Ptr, Str};
use daos::acl::ace::*;
use daos::acl::list::*;
use daos::acl::perms::*;
use daos::acl::principal::*;
use daos::property::*;
use std::ffi::CStr;

const OWNER: u32 = 0;
const USER: u32 = 1;
const EVERYONE: u32 = 4;

/// The entry with this text.
fn ace(words: &CStr) -> Bytes {
    let mut made = Ptr::null();
    assert_eq!(daos_ace_from_str(text(words), at(&mut made)), 0, "{words:?}");
    made
}

/// The list of entries with these texts.
fn acl(words: &[&CStr]) -> Bytes {
    let mut words: Vec<_> = words.iter().map(|words| text(words)).collect();
    let mut made = Ptr::null();
    assert_eq!(daos_acl_from_strs(list(&mut words), words.len(), at(&mut made)), 0);
    made
}

/// The texts of the entries of a list.
fn words(acl: Bytes) -> Vec<String> {
    let (mut texts, mut count) = (Ptr::null(), 0);
    assert_eq!(daos_acl_to_strs(acl, at(&mut texts), at(&mut count)), 0);
    let all: Vec<Str> = texts.list(count).unwrap();
    let words = all.iter().map(|text| read(*text)).collect();
    all.into_iter().for_each(|text| daos::memory::d_free(text.cast()));
    daos::memory::d_free(texts.cast());
    words
}

#[test]
fn entries_are_created_and_measured() {
    let bob = daos_ace_create(USER, text(c"bob@"));
    assert_eq!(daos_ace_get_size(bob), 40);
    assert!(!daos_ace_is_valid(bob), "an entry without access is not valid");
    assert_eq!(read(daos_ace_get_principal_str(bob)), "bob@");
    daos_ace_dump(bob, 1);
    daos_ace_free(bob);
    let owner = daos_ace_create(OWNER, Ptr::null());
    assert_eq!(daos_ace_get_size(owner), 32);
    assert_eq!(read(daos_ace_get_principal_str(owner)), "OWNER@");
    daos_ace_free(owner);
    for bad in [Ptr::null(), text(c"")] {
        assert!(daos_ace_create(USER, bad).is_null());
    }
    let odd = daos_ace_create(USER, text(c"a@b@"));
    assert_eq!(daos_ace_get_size(odd), 40);
    assert_eq!(read(daos_ace_get_principal_str(odd)), "a@b@", "creation does not check the name");
    daos_ace_free(odd);
    let mut header = [0; 32];
    header[1] = USER as u8;
    assert_eq!(daos_ace_get_size(room(&mut header)), 32, "the length in its header");
    assert!(!daos_ace_is_valid(room(&mut header)), "a user must have a name");
    assert!(daos_ace_create(5, text(c"bob@")).is_null());
    daos_ace_free(Ptr::null());
    assert_eq!(daos_ace_get_size(Ptr::null()), INVAL as isize);
    assert!(!daos_ace_is_valid(Ptr::null()));
    assert!(daos_ace_get_principal_str(Ptr::null()).is_null());
}

#[test]
fn entries_are_formatted_as_text_and_words() {
    let group = ace(c"AU:GF:readers@:rt");
    assert!(daos_ace_is_valid(group));
    let mut buffer = [1; 32];
    assert_eq!(daos_ace_to_str(group, room(&mut buffer).cast(), 32), 0);
    assert_eq!(&buffer[..18], b"AU:GF:readers@:rt\0");
    assert_eq!(daos_ace_to_str(group, room(&mut buffer).cast(), 5), TRUNC);
    assert_eq!(&buffer[..5], b"AU:G\0");
    assert_eq!(daos_ace_to_str(group, room(&mut buffer).cast(), 0), INVAL);
    daos_ace_free(group);
    let mut buffer = [1; 64];
    let verbose = |words, len: usize, buffer: &mut [u8]| {
        daos_ace_str_get_verbose(words, room(buffer).cast(), len)
    };
    assert_eq!(verbose(text(c"A::bob@:rw"), 64, &mut buffer), 0);
    assert_eq!(&buffer[..23], b"Allow::bob@:Read/Write\0");
    assert_eq!(verbose(text(c"A::bob@:rw"), 9, &mut buffer), TRUNC);
    for (entry, words) in [
        (c"UA:FS:OWNER@:wr", "Audit/Allow:Access-Failure/Access-Success:Owner:Write/Read"),
        (c"A:G:GROUP@:tT", "Allow:Group:Owner-Group:Get-Prop/Set-Prop"),
        (c"A::EVERYONE@:", "Allow::Everyone:No-Access"),
    ] {
        assert_eq!(verbose(text(entry), 64, &mut buffer), 0);
        assert_eq!(&buffer[..words.len()], words.as_bytes());
    }
    for bad in [c"nonsense", c"::bob@:r", c"A::bob:r", c"A::bob@:r:", c"A::bob@:x"] {
        assert_eq!(verbose(text(bad), 64, &mut buffer), INVAL, "{bad:?}");
    }
    let long = std::ffi::CString::new(format!("A::{}@:r", "x".repeat(315))).unwrap();
    assert_eq!(daos_ace_from_str(text(&long), at(&mut Ptr::null())), INVAL, "too long");
    let mut made = Ptr::null();
    assert_eq!(daos_ace_from_str(text(c"A::bob:r"), at(&mut made)), INVAL);
    assert_eq!(daos_ace_from_str(Ptr::null(), at(&mut made)), INVAL);
    assert_eq!(daos_ace_from_str(text(c"A::bob@:r"), Ptr::null()), INVAL);
}

#[test]
fn lists_are_sorted() {
    let made = acl(&[c"A::EVERYONE@:r", c"A:G:readers@:r", c"A::bob@:rw", c"A::OWNER@:rwd"]);
    let expected = ["A::OWNER@:rwd", "A::bob@:rw", "A:G:readers@:r", "A::EVERYONE@:r"];
    assert_eq!(words(made), expected);
    assert_eq!(daos_acl_validate(made), 0);
    let copy = daos_acl_dup(made);
    assert_eq!(daos_acl_get_size(copy), daos_acl_get_size(made));
    let mut next = Ptr::null();
    let mut kinds = Vec::new();
    loop {
        next = daos_acl_get_next_ace(copy, next);
        if next.is_null() {
            break;
        }
        kinds.push(read(daos_ace_get_principal_str(next)));
    }
    assert_eq!(kinds, ["OWNER@", "bob@", "readers@", "EVERYONE@"]);
    daos_acl_dump(made);
    daos_acl_free(made);
    daos_acl_free(copy);
}

#[test]
fn entries_are_found_added_and_removed() {
    let mut made = acl(&[c"A::bob@:r"]);
    let mut found = Ptr::null();
    let find = |acl, kind, found: &mut Bytes| {
        daos_acl_get_ace_for_principal(acl, kind, text(c"bob@"), at(found))
    };
    assert_eq!(find(made, USER, &mut found), 0);
    assert_eq!(read(daos_ace_get_principal_str(found)), "bob@");
    assert_eq!(find(made, EVERYONE, &mut found), NONEXIST);
    assert_eq!(find(made, 9, &mut found), INVAL);
    for new in [c"A::bob@:rw", c"A::OWNER@:r"] {
        let new = ace(new);
        assert_eq!(daos_acl_add_ace(at(&mut made), new), 0);
        daos_ace_free(new);
    }
    assert_eq!(words(made), ["A::OWNER@:r", "A::bob@:rw"]);
    for (new, expected) in [(c"A::al@:r", "A::al@:r"), (c"A::bob@:w", "A::al@:r")] {
        let new = ace(new);
        assert_eq!(daos_acl_add_ace(at(&mut made), new), 0);
        assert_eq!(words(made)[2], expected, "a replaced entry keeps its position");
        daos_ace_free(new);
    }
    assert_eq!(daos_acl_remove_ace(at(&mut made), USER, text(c"al@")), 0);
    assert_eq!(daos_acl_remove_ace(at(&mut made), USER, text(c"")), INVAL);
    assert_eq!(daos_acl_remove_ace(at(&mut made), USER, text(c"bob@")), 0);
    assert_eq!(daos_acl_remove_ace(at(&mut made), USER, text(c"bob@")), NONEXIST);
    assert_eq!(words(made), ["A::OWNER@:r"]);
    assert_eq!(daos_acl_add_ace(at(&mut made), Ptr::null()), INVAL);
    assert_eq!(daos_acl_add_ace(Ptr::null(), found), INVAL);
    daos_acl_free(made);
}

#[test]
fn malformed_lists_are_refused() {
    let made = acl(&[c"A::OWNER@:r", c"A::bob@:r"]);
    let size = daos_acl_get_size(made) as usize;
    let sound = made.read(size as u64).unwrap().to_vec();
    daos_acl_free(made);
    let check = |change: fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        daos_acl_validate(room(&mut bytes))
    };
    assert_eq!(check(|_| {}), 0);
    assert_eq!(check(|bytes| bytes[0] = 2), INVAL, "version");
    assert_eq!(check(|bytes| bytes[4] -= 8), INVAL, "length");
    assert_eq!(check(|bytes| bytes[7] = 0xff), INVAL, "length");
    assert_eq!(check(|bytes| bytes[8] = 0), INVAL, "no access");
    assert_eq!(check(|bytes| bytes[9] = 4), INVAL, "order");
    assert_eq!(check(|bytes| bytes[10] = 8), INVAL, "a name for the owner");
    assert_eq!(check(|bytes| bytes[12] = 1), INVAL, "the owner is not a group");
    assert_eq!(check(|bytes| bytes[18] = 0xff), INVAL, "unknown permissions");
    assert_eq!(daos_acl_validate(Ptr::null()), INVAL);
    assert_eq!(daos_acl_get_size(Ptr::null()), INVAL as isize);
    assert!(daos_acl_dup(Ptr::null()).is_null());
    assert!(daos_acl_get_next_ace(Ptr::null(), Ptr::null()).is_null());
    assert!(daos_acl_create(Ptr::null(), 1).is_null());
    let mut twice = [text(c"A::bob@:r"), text(c"A::bob@:rw")];
    assert_eq!(
        daos_acl_from_strs(list(&mut twice), 2, at(&mut Ptr::null())),
        INVAL,
        "two entries for bob"
    );
    let empty = daos_acl_create(Ptr::null(), 0);
    assert_eq!(words(empty), [""; 0]);
    assert_eq!((daos_acl_get_size(empty), daos_acl_validate(empty)), (8, 0));
    daos_acl_free(empty);
}

#[test]
fn principals_are_validated_and_converted_to_numbers() {
    for (name, valid) in [(c"bob@", true), (c"bob@x", true), (c"bob", false), (c"@", false)] {
        assert_eq!(daos_acl_principal_is_valid(text(name)), valid, "{name:?}");
    }
    assert!(!daos_acl_principal_is_valid(Ptr::null()));
    let mut name = Ptr::null();
    assert_eq!(daos_acl_uid_to_principal(0, at(&mut name)), 0);
    assert_eq!(read(name), "root@");
    let mut uid = 7;
    assert_eq!((daos_acl_principal_to_uid(name, at(&mut uid)), uid), (0, 0));
    assert_eq!(daos_acl_gid_to_principal(0, at(&mut name)), 0);
    let mut gid = 7;
    assert_eq!((daos_acl_principal_to_gid(name, at(&mut gid)), gid), (0, 0));
    assert_eq!(daos_acl_uid_to_principal(0x7fff_fff0, at(&mut name)), NONEXIST);
    assert_eq!(daos_acl_uid_to_principal(0x7fff_fff0, Ptr::null()), INVAL);
    assert_eq!(daos_acl_gid_to_principal(0x7fff_fff0, Ptr::null()), INVAL);
    assert_eq!(daos_acl_principal_to_uid(text(c"no-such-user@"), at(&mut uid)), NONEXIST);
    assert_eq!(daos_acl_principal_to_uid(text(c"root"), at(&mut uid)), INVAL);
    assert_eq!(daos_acl_principal_to_uid(text(c"root@"), Ptr::null()), INVAL);
    let mut kind = 9;
    let mut parse =
        |words| (daos_acl_principal_from_str(words, at(&mut kind), at(&mut name)), kind);
    assert_eq!(parse(text(c"u:bob@")), (0, USER));
    assert_eq!(parse(text(c"EVERYONE@")), (0, EVERYONE));
    for bad in [c"x:bob@", c"U:bob@", c"G:bob@", c"user:bob@"] {
        assert_eq!(parse(text(bad)).0, INVAL, "{bad:?}");
    }
    assert_eq!(parse(Ptr::null()).0, INVAL);
}

#[test]
fn the_most_specific_entry_applies() {
    let perms = |owner: &CStr, lists: &[&CStr]| {
        let prop = daos_prop_alloc(3);
        let entries = prop.get().unwrap().entries;
        // `DAOS_PROP_CO_ACL`, `DAOS_PROP_CO_OWNER` and `DAOS_PROP_CO_OWNER_GROUP`.
        for (index, kind) in [0x100a, 0x100d, 0x100e].into_iter().enumerate() {
            entries.at(index).set(PropEntry { kind, ..PropEntry::default() });
        }
        let made = acl(lists);
        let size = daos_acl_get_size(made) as u64;
        daos_prop_set_ptr(prop, 0x100a, made, size);
        daos_prop_set_str(prop, 0x100d, text(owner), owner.to_bytes().len() as u64);
        daos_prop_set_str(prop, 0x100e, text(c"root@"), 5);
        daos_acl_free(made);
        let (mut perms, mut gid) = (0, 0);
        assert_eq!(daos_cont_get_perms(prop, 0, at(&mut gid), 1, at(&mut perms)), 0);
        daos_prop_free(prop);
        perms
    };
    let all = [c"A::OWNER@:rw", c"A::root@:r", c"A:G:GROUP@:rt", c"A::EVERYONE@:o"];
    assert_eq!(perms(c"root@", &all), 0x3 | 0xc0, "the owner may always read and change the list");
    assert_eq!(perms(c"bob@", &all), 0x1);
    assert_eq!(perms(c"bob@", &[all[0], all[2], all[3]]), 0x11);
    assert_eq!(perms(c"bob@", &[all[0], all[3]]), 0x100);
    assert_eq!(perms(c"bob@", &[all[0]]), 0);
    let none = Ptr::null();
    assert_eq!(daos_pool_get_perms(Ptr::null(), 0, none, 0, at(&mut 0)), INVAL);
}
