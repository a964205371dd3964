use super::*;

fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

fn message(result: Result<Split>) -> String {
    result.expect_err("refused").message().to_owned()
}

#[test]
fn the_default_schema_splits_a_forecast() {
    let schema = Schema::default_mars().expect("it is valid");
    let full = "class=OD,expver=1,stream=oper,date=2020-01-31,time=6,type=fc,levtype=sfc,step=024,param=2t";
    let split = schema.split(&key(full)).expect("it fits");
    assert_eq!(
        split.database.as_str(),
        "class=od,expver=0001,stream=oper,date=20200131,time=0600,domain=g"
    );
    assert_eq!(split.index.as_str(), "type=fc,levtype=sfc");
    assert_eq!(split.datum.as_str(), "step=24,param=167");
    let again = schema.split(&split.key().expect("short")).expect("it fits");
    assert_eq!(again, split);
}

#[test]
fn what_does_not_fit_is_named() {
    let schema = Schema::parse("date: Date; [a, date [b=x/y [c, d?]]]", "test").expect("valid");
    let said = |text| message(schema.split(&key(text)));
    assert!(said("a=1,date=notadate,b=x,c=1").contains("date=notadate: not a Date: 20200131"));
    assert!(said("a=1,date=20200101,b=z,c=1").contains("b=z is none of x/y"));
    assert!(said("date=20200101,b=x,c=1").contains("a is missing"));
    assert!(said("a=1,date=20200101,b=x,c=1,dd=3").contains("did you mean d?"));
}
