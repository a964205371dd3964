use super::*;
use crate::key::Key;
use crate::limits::{COMBINATIONS_MAX, REQUEST_BYTES_MAX, REQUEST_VALUES_MAX, REQUESTS_MAX};

fn schema() -> Schema {
    Schema::default_mars().expect("it is valid")
}

fn expanded(text: &str) -> Result<Selection> {
    Request::parse(text)?.expand(&schema(), Date::new(2020, 3, 1).expect("a day"))
}

fn selection(text: &str) -> Selection {
    expanded(text).expect("it expands")
}

fn values(text: &str) -> String {
    let selection = selection(text);
    let name = selection.names().next().expect("a name");
    selection.values(name).expect("listed").join(" ")
}

fn refusal<T: fmt::Debug>(result: Result<T>) -> String {
    result.expect_err("refused").message().to_owned()
}

#[test]
fn requests_are_read_as_users_write_them() {
    let text = "
        # the first
        retrieve,
            class   = od,      ! operations
            param   = t/u/
                      v,
            target  = \"out, of #1.grib\"

        LIST, date=-1, step = 0 / to /240 / by/ 6
        class=rd,expver='a/b'
        archive
    ";
    let requests = Request::parse_all(text).expect("valid");
    let shown: Vec<_> = requests.iter().map(Request::to_string).collect();
    let expected = [
        "retrieve,class=od,param=t/u/v,target=\"out, of #1.grib\"",
        "list,date=-1,step=0/to/240/by/6",
        "retrieve,class=rd,expver=\"a/b\"",
        "archive",
    ];
    assert_eq!(shown, expected);
    assert_eq!(requests[0].get("target").expect("given"), ["out, of #1.grib"]);
    assert_eq!(requests[1].verb(), "list");
    assert!(Request::parse_all(" \n # nothing\n").expect("valid").is_empty());
    assert_eq!(Request::parse("class=od,\n").expect("valid").to_string(), "retrieve,class=od");
    assert_eq!(Request::parse("retrieve\n, class=od").expect("valid").iter().count(), 1);
}

#[test]
fn faulty_requests_are_refused_with_their_line() {
    for (text, said) in [
        ("class=", "request, line 1: a value is missing at the end of the line"),
        (
            "retrieve,\nclass=od expver=1",
            "request, line 2: a comma or the end of the line is due before 'e'",
        ),
        ("retrieve,class", "request, line 1: class lacks a value; write class=value"),
        ("retrieve,,class=od", "request, line 1: a name is missing before ','"),
        ("=od", "request, line 1: a verb or a name is missing before '='"),
        ("1=2", "request, line 1: \"1\" is not a valid name"),
        ("r3trieve", "request, line 1: \"r3trieve\" is neither a verb"),
        ("class=od,class=rd", "request, line 1: class occurs twice"),
        ("target=\"x", "request, line 1: the text that begins with \" lacks its end"),
        ("step=0//6", "request, line 1: a value is missing before '/'"),
        ("class=od\nclass=rd", "one request was expected, not 2"),
        ("", "the text has no request"),
    ] {
        let message = refusal(Request::parse(text));
        assert!(message.starts_with(said), "{text}: {message}");
    }
}

#[test]
fn pairs_make_a_request() {
    let request = Request::from_pairs([("Class", "od"), ("step", "0/to/12/by/6")]).expect("valid");
    assert_eq!(request.to_string(), "retrieve,class=od,step=0/to/12/by/6");
    let mut request = request;
    assert_eq!(request.take("class").expect("given"), ["od"]);
    assert_eq!(request.get("class"), None);
    assert!(refusal(Request::from_pairs([("step", "")])).contains("lacks a value"));
    assert!(refusal(Request::from_pairs([("a b", "1")])).contains("not a valid name"));
    let both = vec!["it's \"so\"".to_owned()];
    assert!(refusal(Request::default().add("a", both)).contains("quotes"));
}

#[test]
fn lists_and_ranges_are_written_out() {
    assert_eq!(values("date=-1/0"), "20200229 20200301");
    assert_eq!(values("date=-2/to/0"), "20200228 20200229 20200301");
    assert_eq!(values("date=20200101/to/20200131/by/10"), "20200101 20200111 20200121 20200131");
    assert_eq!(values("date=2020-01-03/to/2020-01-01"), "20200103 20200102 20200101");
    assert_eq!(values("time=0/to/18"), "0000 0600 1200 1800");
    assert_eq!(values("time=0/to/0100/by/00:30"), "0000 0030 0100");
    assert_eq!(values("time=00/to/12/by/12"), "0000 1200");
    assert_eq!(values("time=00/to/0004/by/1m60s"), "0000 0002 0004");
    assert_eq!(values("step=0/to/36"), "0 12 24 36");
    assert_eq!(values("step=0/to/2/by/30m/6/0-24"), "0 30m 1 1h30m 2 6 0-24");
    assert_eq!(values("step=24/0/TO/24/BY/6"), "24 0 6 12 18");
    assert_eq!(values("number=3/to/1/by/-1"), "3 2 1");
    assert_eq!(values("number=1/to/10/by/4"), "1 5 9");
    assert_eq!(values("levelist=0/to/0.5/by/0.1"), "0 0.1 0.2 0.3 0.4 0.5");
    assert_eq!(values("levelist=1000/to/850/by/50"), "1000 950 900 850");
    assert_eq!(values("param=2t/T/167/130"), "167 130");
    assert_eq!(values("grid=0.25/0.25"), "0.25+0.25");
    assert_eq!(values("class=OD/rd/od"), "od rd");
    assert_eq!(values("expver=1/hz9o"), "0001 hz9o");
}

#[test]
fn months_and_years_have_ranges() {
    let text = "a: Month; b: YearMonth; c: Year; d: ClimateDaily; e: MonthOfDate; f: ClimateMonthly; \
        [a, b, c [d [e, f]]]";
    let schema = Schema::of_store(text, "test").expect("valid");
    let request = "a=11/to/12,b=2019-11/to/202002,c=2019/to/20210101,d=feb-28/to/mar-01,e=1/to/3,f=jan/to/mar";
    let request = Request::parse(request).expect("valid");
    let selection = request.expand(&schema, Date::today()).expect("it expands");
    let values = |name| selection.values(name).expect("listed").join(" ");
    assert_eq!(values("a"), "11 12");
    assert_eq!(values("b"), "201911 201912 202001 202002");
    assert_eq!(values("c"), "2019 2020 2021");
    assert_eq!(values("d"), "0228 0229 0301");
    assert_eq!(values("e"), "01 02 03");
    assert_eq!(values("f"), "1 2 3");
}

#[test]
fn expansion_errors_name_the_invalid_value() {
    for (text, said) in [
        ("date=notadate", "date=notadate: not a Date, such as 20200131, 2020-01-31, 0, -1"),
        ("param=nosuchparam", "param=nosuchparam: not a Param, such as 167, 167.128, 2t"),
        ("stpe=1", "the schema default has no name stpe (did you mean step?); it has "),
        ("area=75/-15/30/42.5", "area asks for processing: fields come as they were archived"),
        ("step=all/0", "step: all stands alone"),
        ("step=to/5", "step: to is out of place"),
        ("step=0/to", "step: to is out of place"),
        ("step=0/to/6/by", "step: by is out of place"),
        ("step=0/to/6/by/x", "step: 0/to/6/by/x leads nowhere"),
        ("time=0/to/6/by/90s", "time: 0/to/6/by/90s leads nowhere"),
        ("step=0/to/6/by/0", "step: 0/to/6/by/0 leads nowhere"),
        ("step=0/to/6/by/-1", "step: 0/to/6/by/-1 leads nowhere"),
        ("number=1/to/5/by/--5", "number: 1/to/5/by/--5 leads nowhere"),
        ("number=5/to/1/by/-+5", "number: 5/to/1/by/-+5 leads nowhere"),
        (
            "number=1/to/5/by/--9223372036854775808",
            "number: 1/to/5/by/--9223372036854775808 leads nowhere",
        ),
        ("step=0-24/to/48", "step: 0-24/to/48: values of type Step have no such range"),
        ("param=130/to/133", "param: 130/to/133: values of type Param have no such range"),
        ("class=a/to/b", "class: a/to/b: values of type Default have no such range"),
        ("class=001/to/003", "class: 001/to/003: values of type Default have no such range"),
        ("class=+1/to/+3", "class: +1/to/+3: values of type Default have no such range"),
        ("number=0/to/99999999", "number has over 262144 values"),
        ("class=\"a,b\"", "class=\"a,b\": values have no commas"),
    ] {
        let message = refusal(expanded(text));
        assert!(message.starts_with(said), "{text}: {message}");
    }
}

#[test]
fn names_that_select_nothing_are_left_out() {
    let selection = selection("class=od,target=x.grib,expect=any,database=here,step=all,param=*");
    assert_eq!(selection.names().collect::<Vec<_>>(), ["class", "step", "param"]);
    assert_eq!(selection.values("step"), None);
    assert_eq!(selection.count(), None);
    assert!(refusal(selection.keys().map(|_| ())).contains("step=all names no values"));
}

#[test]
fn combinations_come_in_the_order_of_the_request() {
    let selection = selection("step=6/0,param=v/u,class=od");
    let keys: Vec<_> = selection.keys().expect("listed").map(|key| key.to_string()).collect();
    let expected = [
        "step=6,param=132,class=od",
        "step=6,param=131,class=od",
        "step=0,param=132,class=od",
        "step=0,param=131,class=od",
    ];
    assert_eq!(keys, expected);
    assert_eq!(selection.count(), Some(4));
    let everything = Selection::everything(&schema());
    assert_eq!(everything.count(), Some(1));
    assert!(everything.matches(&Key::parse("class=od").expect("a key")));
}

#[test]
fn selection_matches_keys_with_its_values() {
    let selection = selection("class=od,date=20200131/20200201,number=all,levelist=500/850");
    let takes = |text: &str| selection.matches(&Key::parse(text).expect("a key"));
    assert!(takes("class=od,date=20200131,levelist=500,param=130"));
    assert!(takes("class=od,date=20200131,number=4,levelist=850"));
    assert!(!takes("class=od,date=20200131"));
    assert!(!takes("class=rd,date=20200131,levelist=500"));
    assert!(!takes("class=od,date=20200202,levelist=500"));
    let may = |text: &str| selection.may_match(&Key::parse(text).expect("a key"));
    assert!(may("class=od,date=20200131,time=0000"));
    assert!(may("class=od,date=2020") && may("date=1") && may("date=2"));
    assert!(!may("class=od,date=2019") && !may("date=3"));
}

#[test]
fn fields_are_ordered_as_the_request_is() {
    let selection = selection("step=12/0,number=all,param=u/t");
    let mut keys = [
        "number=1,step=0,param=130",
        "number=10,step=12,param=131",
        "number=2,step=12,param=130",
        "number=2,step=12,param=131",
    ]
    .map(|text| Key::parse(text).expect("a key"));
    keys.sort_by_cached_key(|key| selection.position(key));
    let sorted = keys.map(|key| key.to_string());
    let expected = [
        "number=2,step=12,param=131",
        "number=2,step=12,param=130",
        "number=10,step=12,param=131",
        "number=1,step=0,param=130",
    ];
    assert_eq!(sorted, expected);
    assert_eq!(selection.position(&Key::parse("step=6,param=131").expect("a key")), None);
}

#[test]
fn limits_hold() {
    let long = " ".repeat(REQUEST_BYTES_MAX + 1);
    assert!(refusal(Request::parse_all(&long)).contains("bytes"));
    let many = "a\n".repeat(REQUESTS_MAX);
    assert_eq!(Request::parse_all(&many).expect("at the limit").len(), REQUESTS_MAX);
    assert!(refusal(Request::parse_all(&format!("{many}a"))).contains("at most"));

    let numbers = |last: usize| format!("number=1/to/{last}");
    let most = selection(&numbers(REQUEST_VALUES_MAX));
    assert_eq!(most.count(), Some(REQUEST_VALUES_MAX as u64));
    assert!(refusal(expanded(&numbers(REQUEST_VALUES_MAX + 1))).contains("has over"));

    let side = COMBINATIONS_MAX.isqrt();
    let square =
        |more: u64| selection(&format!("number=1/to/{side},step=1/to/{}/by/1", side + more));
    assert_eq!(square(0).keys().expect("at the limit").size_hint().0 as u64, COMBINATIONS_MAX);
    assert!(refusal(square(1).keys().map(|_| ())).contains("combinations"));

    let value = "v".repeat(255);
    let wide = format!("class={value},stream={value},type={value},levtype={value}");
    assert!(refusal(selection(&wide).keys().map(|_| ())).contains("bytes"));

    let mut request = Request::default();
    for n in 0..KEY_PAIRS_MAX {
        request.add(&format!("n{n}"), vec!["1".to_owned()]).expect("room");
    }
    assert!(refusal(request.add("more", vec!["1".to_owned()])).contains("at most"));
}
