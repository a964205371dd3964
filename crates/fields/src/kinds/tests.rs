use super::*;

#[test]
fn the_table_of_types_is_in_the_order_of_the_types() {
    assert!(TYPES.iter().enumerate().all(|(place, (kind, _, _))| *kind as usize == place));
}
