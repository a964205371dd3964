use super::*;

fn selection(text: &str) -> Selection {
    let schema = Schema::default_mars().expect("it is valid");
    let request = Request::parse(text).expect("a request");
    request.expand(&schema, Date::new(2020, 3, 1).expect("a day")).expect("it expands")
}

#[test]
fn lists_and_ranges_are_written_out() {
    let selection =
        selection("retrieve, class=OD, date=-1/0, time=0/to/18, step=0/to/240/by/60, param=2t/t");
    assert_eq!(selection.values("class").expect("listed"), ["od"]);
    assert_eq!(selection.values("date").expect("listed"), ["20200229", "20200301"]);
    assert_eq!(selection.values("time").expect("listed"), ["0000", "0600", "1200", "1800"]);
    assert_eq!(selection.values("step").expect("listed"), ["0", "60", "120", "180", "240"]);
    assert_eq!(selection.values("param").expect("listed"), ["167", "130"]);
    assert_eq!(selection.count(), Some(80));
}
