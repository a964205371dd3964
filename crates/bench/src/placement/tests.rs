use super::*;

fn plan() -> PlacementPlan {
    PlacementPlan {
        nodes: vec![2, 64],
        targets: 8,
        kinds: vec![Kind::Array, Kind::Kv],
        classes: ["S1", "S2", "S8", "SX"].map(str::to_owned).to_vec(),
        ids: Ids::ALL.to_vec(),
        objects: 20_000,
        dkeys: 8,
        threads: Some(2),
        seed: 1,
        counts: true,
    }
}

#[test]
fn ids_are_spread_as_by_ideal_hash() {
    let mut notes = 0;
    let report = plan().simulate(&mut |_| notes += 1).unwrap();
    assert_eq!((report.placements.len(), notes), (2 * 4 * 2 * 6, 96));
    for placed in &report.placements {
        assert!(!placed.is_uneven(), "{placed}");
        let counts = placed.over_targets.counts.as_ref().unwrap();
        assert_eq!(counts.iter().sum::<u64>(), 160_000);
    }
    assert!(report.to_string().ends_with("96 placements: all as even as by an ideal hash"));
}

#[test]
fn result_is_independent_of_number_of_threads() {
    let counts = |threads| {
        let plan = PlacementPlan {
            threads: Some(threads),
            objects: 200_000,
            ids: vec![Ids::Random],
            ..plan()
        };
        let report = plan.simulate(&mut |_| {}).unwrap();
        report.placements.into_iter().map(|placed| placed.over_targets.counts).collect::<Vec<_>>()
    };
    assert_eq!(counts(1), counts(3));
}

#[test]
fn shards_share_node_only_if_nodes_are_too_few() {
    let report = plan().simulate(&mut |_| {}).unwrap();
    for placed in &report.placements {
        let fits = match placed.class.as_str() {
            "S1" | "S2" => true,
            "S8" => placed.nodes >= 8,
            _ => false,
        };
        assert_eq!(placed.apart, f64::from(u8::from(fits)), "{placed}");
    }
}

#[test]
fn one_target_for_everything_is_uneven() {
    let ideal = IdealHash::for_load(Load::Array { groups: 1, chunks: 1 }, 100, 4);
    assert!(Evenness::from_counts(vec![100, 0, 0, 0], ideal, false).is_uneven());
    assert!(!Evenness::from_counts(vec![20, 30, 28, 22], ideal, false).is_uneven());
    let equal = IdealHash::for_load(Load::Array { groups: 4, chunks: 4 }, 100, 4);
    assert!(Evenness::from_counts(vec![100, 100, 101, 99], equal, false).is_uneven());
    assert!(!Evenness::from_counts(vec![100; 4], equal, false).is_uneven());
}

#[test]
fn invalid_options_are_refused() {
    let wrong = [
        PlacementPlan { targets: 0, ..plan() },
        PlacementPlan { targets: 65, ..plan() },
        PlacementPlan { nodes: vec![1025], ..plan() },
        PlacementPlan { objects: 0, ..plan() },
        PlacementPlan { dkeys: 0, ..plan() },
        PlacementPlan { objects: u64::MAX, ..plan() },
        PlacementPlan { threads: Some(0), ..plan() },
        PlacementPlan { classes: vec!["X".to_owned()], ..plan() },
    ];
    for plan in wrong {
        assert_eq!(plan.simulate(&mut |_| {}).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
