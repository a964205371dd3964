use super::*;
use crate::limits::SCHEMA_RULES_MAX;

fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

fn schema(text: &str) -> Schema {
    Schema::parse(text, "test").expect("valid")
}

fn split(schema: &Schema, text: &str) -> Split {
    schema.split(&key(text)).expect("it fits")
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.expect_err("refused").message().to_owned()
}

const FORECAST: &str =
    "class=OD,expver=1,stream=oper,date=2020-01-31,time=6,type=fc,levtype=sfc,step=024,param=2t";

#[test]
fn the_default_schema_splits_a_forecast() {
    let schema = Schema::default_mars().expect("it is valid");
    let split = split(&schema, FORECAST);
    let database = "class=od,expver=0001,stream=oper,date=20200131,time=0600,domain=g";
    assert_eq!(split.database.as_str(), database);
    assert_eq!(split.index.as_str(), "type=fc,levtype=sfc");
    assert_eq!(split.datum.as_str(), "step=24,param=167");
    let again = schema.split(&split.whole).expect("it fits");
    assert_eq!(again, split);
}

#[test]
fn the_default_schema_takes_what_centres_archive() {
    let schema = Schema::default_mars().expect("it is valid");
    let common = "expver=1,date=20200131,time=0";
    for rest in [
        "class=od,stream=enfo,type=pf,levtype=pl,levelist=500,step=6,number=1,param=t",
        "class=od,stream=wave,type=fc,levtype=sfc,step=6,param=swh,frequency=1,direction=2",
        "class=od,stream=enfo,type=ep,levtype=sfc,step=0-24,param=131060",
        "class=ea,stream=oper,type=an,levtype=ml,levelist=137,step=0,param=130,domain=g",
        "class=ea,stream=moda,type=an,levtype=sfc,param=167",
        "class=od,stream=mmsf,type=fc,levtype=sfc,step=744,number=0,param=167,system=5,method=1,origin=ecmf",
        "class=od,stream=msmm,type=fcmean,levtype=sfc,fcmonth=1,number=0,param=167,system=5,method=1,origin=ecmf",
        "class=od,stream=enfh,type=pf,levtype=sfc,hdate=19990131,step=6,number=3,param=167",
        "class=od,stream=ocda,type=an,levtype=o2d,step=0,param=262100,model=nemo",
        "class=od,stream=elda,type=me,levtype=ml,levelist=1,param=130,number=1,anoffset=9",
        "class=ti,stream=enfo,type=cf,levtype=sfc,step=6,param=167,origin=kwbc,number=0",
    ] {
        let split = split(&schema, &format!("{common},{rest}"));
        assert!(!split.database.is_empty() && !split.index.is_empty() && !split.datum.is_empty());
    }
    let climate = "class=d1,dataset=climate-dt,activity=scenariomip,experiment=ssp3-7.0,generation=2,\
        model=ifs-nemo,realization=1,expver=1,stream=clte,date=20300215,resolution=high,type=fc,levtype=sfc,\
        time=6,param=2t";
    let split = split(&schema, climate);
    assert_eq!(split.database.get("date"), Some("2030"));
    assert_eq!(split.index.get("date"), Some("2"));
    assert_eq!(split.datum.get("date"), Some("20300215"));
    assert_eq!(split.whole.get("date"), Some("20300215"));
    assert_eq!(schema.split(&split.whole).expect("it fits"), split);
}

/// A schema with all constructs that schemas of centres use.
const CONSTRUCTS: &str = "
# Types for all rules.
step:Step; date : Date ;
number:
  Integer;
level: Double;   # behind a declaration

[ class=ti/s2, expver:Expver, date, time: Time,
    # a comma before a level, as in FDB's own manual
    [ origin, type, levtype, hdate?
        [ step, number?, level?, param: Param ]]
]
[ class, expver: Expver, stream=!enfo/efov, date, domain?g
    [ type=cl, levtype [ date: ClimateMonthly, param ]]
    [ type=!cl, levtype, icmodel: First3 ?
        [ step, grid-, frequency:Integer?1, level?, param, note: Ignore ]
        [ fcmonth, param ]]
]
[class,stream=enfo/efov,date[type[step,number,param]]]
";

#[test]
fn every_construct_of_the_language_is_understood() {
    let schema = schema(CONSTRUCTS);
    assert_eq!(schema.rules().len(), 5);
    assert_eq!(schema.rules()[0].line(), 11);
    assert_eq!(schema.type_of("step"), Some(KeyType::Step));
    assert_eq!(schema.type_of("expver"), Some(KeyType::Expver));
    assert_eq!(schema.type_of("nothing"), None);
    let shown = schema.rules()[2].to_string();
    let expected = "[class, expver: Expver, stream=!enfo/efov, date: Date, domain?g \
        [type=!cl, levtype, icmodel: First3? \
        [step: Step, grid-, frequency: Integer?1, level: Double?, param, note: Ignore]]]";
    assert_eq!(shown, expected);
}

#[test]
fn names_that_begin_alike_are_told_apart() {
    let names = ["quantity", "quantityb", "quantitya", "quantit"];
    let schema = schema("[quantity, quantityb [quantitya [quantit]]]");
    let whole = key("quantity=1,quantityb=2,quantitya=3,quantit=4");
    assert_eq!(schema.split(&whole).expect("it fits").whole, whole);
    for name in names {
        assert_eq!(schema.kinds(name).len(), 1, "{name}");
    }
    for name in ["quanti", "quantityc", "quantityab", ""] {
        assert!(schema.kinds(name).is_empty(), "{name}");
    }
}

#[test]
fn rules_are_told_apart_by_names_and_values() {
    let schema = schema(CONSTRUCTS);
    let rule = |text: &str| split(&schema, text).rule;
    let from = "expver=1,date=20200131";
    assert_eq!(
        rule(&format!("class=S2,{from},time=0,origin=x,type=cl,levtype=sfc,step=0,param=2t")),
        0
    );
    assert_eq!(rule(&format!("class=s2,{from},stream=oper,type=cl,levtype=sfc,param=2t")), 1);
    let index = format!("class=od,{from},stream=oper,type=an,levtype=sfc,icmodel=icon-x");
    assert_eq!(rule(&format!("{index},step=0,param=1,note=x")), 2);
    assert_eq!(rule(&format!("{index},fcmonth=1,param=1")), 3);
    assert_eq!(rule("class=od,date=20200131,stream=EFOV,type=an,step=0,number=1,param=1"), 4);
}

#[test]
fn parts_are_kept_defaulted_left_out_and_dropped() {
    let schema = schema(CONSTRUCTS);
    let from = "class=od,expver=1,date=20200131,stream=oper,type=an,levtype=sfc";
    let split =
        split(&schema, &format!("{from},icmodel=icon-x,step=0,param=1,note=x,grid=o1280,level="));
    let database = "class=od,expver=0001,stream=oper,date=20200131,domain=g";
    assert_eq!(split.database.as_str(), database);
    assert_eq!(split.index.as_str(), "type=an,levtype=sfc,icmodel=ico");
    assert_eq!(split.datum.as_str(), "step=0,frequency=1,param=1");
}

#[test]
fn defaults_can_be_left_out() {
    let schema = schema("[class, domain?g [type [step, frequency: Integer?1, param]]]");
    let given = "class=od,type=an,step=0,param=1";
    let whole = split(&schema, given).whole;
    assert_eq!((whole.get("domain"), whole.get("frequency")), (Some("g"), Some("1")));
    assert_eq!(schema.without_defaults(&whole).as_str(), given);
    let other = split(&schema, &format!("{given},domain=e")).whole;
    assert_eq!(schema.without_defaults(&other).get("domain"), Some("e"));
}

#[test]
fn a_type_in_a_rule_holds_for_the_levels_inside() {
    let schema = schema("date: Date; [date: YearMonth, a [b [date, c]]] [x, date [y [z]]]");
    let first = split(&schema, "date=20200131,a=1,b=1,c=1");
    assert_eq!(
        (first.database.as_str(), first.datum.as_str()),
        ("date=202001,a=1", "date=202001,c=1")
    );
    assert_eq!(split(&schema, "date=20200131,x=1,y=1,z=1").database.get("date"), Some("20200131"));
}

#[test]
fn errors_name_missing_and_invalid_values() {
    let schema = schema("date: Date; [a, date [b=x/y [c, d?]]] [e [f=!g [h]]]");
    let said = |text: &str| refusal(schema.split(&key(text)));
    let date = said("a=1,date=notadate,b=x,c=1");
    assert_eq!(date, "date=notadate: not a Date, such as 20200131, 2020-01-31");
    let value = said("a=1,date=20200101,b=z,c=1");
    assert!(
        value.contains("b=z is none of x/y. Nearest rule, line 1: [a, date: Date [b=x/y"),
        "{value}"
    );
    assert!(said("date=20200101,b=x,c=1").contains("a is missing (text without commas)"));
    assert!(said("a=,date=20200101,b=x,c=1").contains("a is missing"));
    assert!(said("a=1,date=20200101,b=x,c=1,h=2").contains("h=2 is surplus"));
    assert!(said("e=1,f=g,h=1").contains("f=g is one of g"));
    let name = said("a=1,date=20200101,b=x,c=1,dd=3");
    assert_eq!(
        name,
        "the schema test has no name dd (did you mean d?); it has a, b, c, d, date, e, f, h"
    );
}

#[test]
fn a_faulty_schema_is_refused_with_its_line() {
    for (text, said) in [
        ("", "test:1: a schema needs a rule"),
        ("a: Nothing;", "test:1: a schema has no type Nothing"),
        ("a: Date\n[a [b [c]]]", "test:2: a declaration (name: Type;) needs ';' here, not '['"),
        ("a: Date; a: Date; [a [b [c]]]", "test:1: the type of a is declared twice"),
        ("[a [b]]", "test:1: the rule ends at level 2 of three"),
        ("[a]", "test:1: the rule ends at level 1 of three"),
        ("[a [b [c [d]]]]", "test:1: a rule has three levels"),
        ("[a [b [c]]", "test:1: a name is missing before the end of the text"),
        ("[a [b [c]]]]", "test:1: a level of a rule needs '[' here, not ']'"),
        ("\n[a\n[b [c e]]]", "test:3: a name is followed by ',', '[' or ']', not by 'e'"),
        ("[a, a [b [c]]]", "test:1: a occurs twice in one level"),
        ("[a [b [c]], d]", "test:1: a name is missing before ','"),
        ("[a [b [c]] d]", "test:1: d must stand before the levels inside its own"),
        ("[a= [b [c]]]", "test:1: a value of a is missing"),
        ("[a=!/x [b [c]]]", "test:1: a value of a is missing"),
        ("[a: Date=x [b [c]]]", "test:1: a=x: not a Date"),
        (
            "[a [b\n[c, date: Month]]]",
            "test:2: date: Month keeps a part of date only, and no level of the rule keeps all of it: fields that \
             differ in the rest would take each other's place; write date: Date",
        ),
        ("[a, date: Year [b [c, date: Month]]]", "test:1: date: Year keeps"),
        ("[a, date: Date- [b [c, date: MonthOfDate]]]", "test:1: date: MonthOfDate keeps"),
        ("[a, date: Year [b [c, date: ClimateDaily]]]", "test:1: date: Year keeps"),
        ("[1a [b [c]]]", "test:1: \"1a\" is not a valid name"),
    ] {
        let message = refusal(Schema::parse(text, "test"));
        assert!(message.starts_with(said), "{text}: {message}");
    }
}

#[test]
fn limits_hold() {
    let rules = |count: usize| "[a [b [c]]]".repeat(count);
    assert!(Schema::parse(&rules(SCHEMA_RULES_MAX), "test").is_ok());
    assert!(refusal(Schema::parse(&rules(SCHEMA_RULES_MAX + 1), "test")).contains("at most"));

    let names = |count: usize| {
        let names: Vec<_> = (2..count).map(|n| format!("n{n}")).collect();
        format!("[a [b [{}]]]", names.join(","))
    };
    let full = schema(&names(SCHEMA_NAMES_MAX));
    assert_eq!(full.names().count(), SCHEMA_NAMES_MAX);
    assert!(refusal(Schema::parse(&names(SCHEMA_NAMES_MAX + 1), "test")).contains("at most"));
    let pairs = full.names().take(crate::limits::KEY_PAIRS_MAX).map(|name| (name, "1"));
    assert!(refusal(full.split(&Key::from_pairs(pairs).expect("fits"))).contains("is missing"));

    let long = " ".repeat(SCHEMA_BYTES_MAX + 1);
    assert!(refusal(Schema::parse(&long, "test")).contains("bytes"));
}

#[test]
fn split_respects_the_limits_of_keys() {
    let schema = schema("[a [b [c, d, e]]]");
    let long = |len: usize| "v".repeat(len);
    let mut key = key("a=1,b=1");
    for name in ["c", "d", "e"] {
        key.set(name, &long(240)).expect("room");
    }
    assert_eq!(split(&schema, key.as_str()).whole, key);
}

/// FDB, too, accepts types such as months of any year and first letters.
#[test]
fn lossy_types_are_allowed_beside_a_complete_one_or_if_intended() {
    for text in [
        "[a, date: Year [b, date: Month [c, date: Date]]]",
        "[a, date: Date [b [c, date: Month]]]",
        "[a, date [b [c, date: ClimateDaily]]]",
        "[a [b [c, date: YearMonth]]]",
        "[a [b [c, date: ClimateMonthly, origin: First3]]]",
        "[a, date: ClimateMonthly [b [c, date: ClimateMonthly]]]",
        "[a [b [c, date: Month-]]]",
    ] {
        schema(text);
    }
}

#[test]
fn complete_key_has_the_date_that_determines_the_others() {
    for text in [
        "[a, date: Year [b, date: Month [c, date: Date]]]",
        "[a, date: Date [b, date: Month [c, date: Year]]]",
        "[a, date: Year [b, date: Date [c, date: ClimateMonthly]]]",
    ] {
        let split = split(&schema(text), "a=1,date=2020-01-31,b=1,c=1");
        assert_eq!(split.whole.as_str(), "a=1,date=20200131,b=1,c=1", "{text}");
    }
}

#[test]
fn keys_that_could_not_be_found_again_are_refused() {
    let refused = |text: &str, given: &str| refusal(schema(text).split_to_archive(&key(given)));
    let defaults = "[a, x?1 [b [c, x?2]]]";
    assert!(refused(defaults, "a=1,b=1,c=1").contains("makes it a=1,x=2,b=1,c=1"));
    assert!(schema(defaults).split_to_archive(&key("a=1,b=1,c=1,x=1")).is_ok());
    let order = "[a, x=1 [b, c [d]]] [a, x?1 [b [c, d]]]";
    assert!(refused(order, "a=1,b=1,c=1,d=1").contains("of that another field"));
    assert!(refused("[a [b [c]]]", "a=1/2,b=1,c=1").contains("a=1/2: a field has one value"));
    assert!(schema("[a [b [grid: Grid]]]").split_to_archive(&key("a=1,b=1,grid=1/1")).is_ok());
    assert!(refused("[a? [b [c]]]", "b=1,c=1").contains("to name its database"));
    assert!(refused("[a [b [c?]]]", "a=1,b=1").contains("to name it"));
    assert!(schema("[a [b [c, x: Ignore]]]").split_to_archive(&key("a=1,b=1,c=1,x=1")).is_ok());
    let ignored = schema("[a [b [c, x: Ignore]]]");
    assert!(ignored.split(&key("a=1,b=1,c=1")).is_ok());
    assert!(refusal(ignored.split_strictly(&key("a=1,b=1,c=1"))).contains("x is missing"));
    assert!(schema("[a [b? [c]]]").split_to_archive(&key("a=1,c=1")).is_ok());
}
