//! The functions that are loaded from libdaos exist in a genuine one. `tests/abi/symbols.c` lists the functions of
//! DAOS's public headers, and `tests/abi` compares their structures with DAOS's.
use esker_daos::binding::SYMBOLS;

const PUBLIC: &str = include_str!("../../../../tests/abi/symbols.c");

#[test]
fn every_function_is_one_of_the_public_interface() {
    assert!(SYMBOLS.len() > 40);
    for symbol in SYMBOLS {
        assert!(PUBLIC.contains(&format!("NAME({symbol})")), "{symbol} is none of DAOS's");
    }
}

#[test]
fn each_function_is_looked_up_once() {
    let mut names = SYMBOLS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SYMBOLS.len());
    assert!(names.iter().all(|name| name.starts_with("daos_")), "{names:?}");
}
