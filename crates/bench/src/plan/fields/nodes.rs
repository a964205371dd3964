//! `esker bench fields --nodes`: the rates of a field store and of Field I/O on pools over nodes, and the requests that
//! each engine serves.
use super::super::location::{Location, container_label};
use super::super::scratch::{Scratch, memory_or_temporary};
use super::{FieldsPlan, enter, sample, start};
use crate::fields::Phase;
use crate::fields::worker::{Job, label};
use crate::job::Member;
use crate::metrics::{MIB, Statistics};
use crate::names::Named;
use crate::plan::parallel::one_node_error;
use crate::plan::{Measurement, Note};
use crate::report::{Settings, with_origin};
use crate::runner::Runner;
use crate::runtime;
use crate::table::{new_table, or_dash};
use esker::Wait;
use esker::names::NODE_VARIABLE;
use esker_cli::units::rounded;
use esker_fields::{FieldStore, NewFields, Schema};
use esker_nodes::Map;
use esker_types::Result;
use serde::Serialize;
use serde_json::json;
use std::path::Path;

/// Phases of a field store.
const PHASES: [Phase; 4] = [Phase::Archive, Phase::Retrieve, Phase::Request, Phase::List];

/// Kinds of requests of a process that opens a store.
const OPENING: [&str; 3] = ["pool", "container", "metadata"];

const LEGEND: &str = "\
fields: the field store. stripes: those of the index of a database. field-io: Field I/O with one index for all processes. \
fields/s: median of the repeats. requests: those of all engines for each field. busiest: share of the engine with the most \
requests; of Field I/O over both phases and the pass that warms up.";

/// A phase of a system on a pool.
#[derive(Clone, Debug, Serialize)]
struct Row {
    pool: String,
    nodes: usize,
    system: &'static str,
    /// Stripes of the index, if it is a field store.
    stripes: Option<u32>,
    procs: u32,
    phase: String,
    fields_per_s: f64,
    /// Requests that each engine has served, in all repeats.
    requests: Vec<u64>,
    /// Fields of all repeats; none if the requests are those of several phases.
    fields: Option<u64>,
}

impl Row {
    /// Cells of the table.
    fn cells(&self) -> [String; 8] {
        let total = self.requests.iter().sum::<u64>();
        let most = self.requests.iter().max().copied().unwrap_or(0);
        let per_field = self.fields.map(|fields| format!("{:.2}", total as f64 / fields as f64));
        [
            self.nodes.to_string(),
            self.system.to_owned(),
            or_dash(self.stripes.map(|stripes| stripes.to_string())),
            self.phase.clone(),
            self.procs.to_string(),
            format!("{:.0}", self.fields_per_s),
            or_dash(per_field),
            format!("{:.0} %", 100.0 * most as f64 / total.max(1) as f64),
        ]
    }
}

/// Measures fields and Field I/O on each pool over nodes, with each number of processes.
pub(super) fn run(plan: &FieldsPlan, note: Note<'_>) -> Result<Measurement> {
    plan.check()?;
    let node = std::env::var(NODE_VARIABLE).unwrap_or_else(|_| "none".to_owned());
    let variables = vec![(NODE_VARIABLE.to_owned(), node)];
    let mut rows = Vec::new();
    // All pools are opened first: one that cannot be measured is refused before anything is measured.
    let pools = plan.nodes.iter().map(|name| {
        let location = Location::named(name)?;
        Ok((name, Engines::new(&location)?, location))
    });
    for (name, engines, location) in pools.collect::<Result<Vec<_>>>()? {
        for &procs in &plan.procs {
            let pool = OnePool { plan, variables: &variables, name, location: &location, procs };
            for stripes in [None, Some(1)] {
                note(&format!("fields on {name}"));
                rows.extend(pool.fields(&engines, stripes)?);
            }
            note(&format!("Field I/O on {name}"));
            rows.extend(pool.field_io(&engines)?);
        }
    }
    let mut table = new_table("nodes|system|>stripes|phase|>procs|>fields/s|>requests|>busiest");
    rows.iter().for_each(|row| table.row(row.cells()));
    let options =
        json!({"size_bytes": plan.shape.size_bytes, "repeats": plan.repeats, "pools": plan.nodes});
    let settings = Settings::new(plan.seed, options);
    let report = with_origin(&memory_or_temporary(), &settings, json!({"rows": rows}))?;
    Ok(Measurement { report, text: format!("{}\n\n{LEGEND}", table.text()) })
}

/// The engines of a pool over nodes.
struct Engines {
    map: Map,
    runtime: tokio::runtime::Runtime,
}

impl Engines {
    fn new(location: &Location) -> Result<Self> {
        let map = location.url.strip_prefix("nodes:").ok_or_else(one_node_error)?;
        Ok(Self { map: Map::read(Path::new(map))?, runtime: runtime::start(Some(1))? })
    }

    /// Requests that each engine has served, without those that open a store.
    fn counts(&self) -> Result<Vec<u64>> {
        let counts = self.runtime.block_on(self.map.requests());
        let sum = |counts: Vec<(String, u64)>| {
            let counts = counts.iter().filter(|(kind, _)| !OPENING.contains(&kind.as_str()));
            counts.map(|(_, count)| count).sum()
        };
        counts.into_iter().map(|counts| counts.map(sum)).collect()
    }

    /// Runs `work`; returns its result, and the requests of each engine.
    fn count<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Vec<u64>)> {
        let before = self.counts()?;
        let done = work()?;
        let counts = std::iter::zip(self.counts()?, before);
        Ok((done, counts.map(|(after, before)| after.saturating_sub(before)).collect()))
    }
}

/// Measurements on one pool by a number of processes.
struct OnePool<'p> {
    plan: &'p FieldsPlan,
    variables: &'p [(String, String)],
    name: &'p str,
    location: &'p Location,
    procs: u32,
}

impl OnePool<'_> {
    /// A row that says what was measured, whose figures are added later.
    fn row(&self, engines: &Engines, system: &'static str, phase: &str) -> Row {
        Row {
            pool: self.name.to_owned(),
            nodes: engines.map.nodes.len(),
            system,
            stripes: None,
            procs: self.procs,
            phase: phase.to_owned(),
            fields_per_s: 0.0,
            requests: vec![0; engines.map.nodes.len()],
            fields: None,
        }
    }

    /// Measures a field store whose indexes have `stripes` stripes, or as many as the store chooses if `None`.
    fn fields(&self, engines: &Engines, stripes: Option<u32>) -> Result<Vec<Row>> {
        let files = Scratch::for_plain_files(&memory_or_temporary())?;
        let container = container_label();
        let job = Job {
            member: Member { procs: self.procs, seed: self.plan.seed, ..Member::default() },
            pool: self.location.url.clone(),
            container: container.clone(),
            files: files.path().to_owned(),
            durable: false,
            shape: self.plan.shape,
            grib: None,
            verify: false,
        };
        let mut workers = start(self.variables.to_vec(), &job, 0, &self.plan.pin.order()?)?;
        let mut rows = PHASES.map(|phase| self.row(engines, "fields", &phase.name())).to_vec();
        let mut rates = vec![Vec::new(); PHASES.len()];
        for round in 1..=self.plan.repeats {
            let (pool, label) = (self.location.pool()?, label(&container, round));
            let new = NewFields { stripes };
            let store = FieldStore::create_with(pool, &label, &Schema::default_mars()?, new)?;
            let mut phases = PHASES.into_iter().zip(&mut rows).zip(&mut rates);
            let done = phases.try_for_each(|((phase, row), rates)| {
                let (done, counts) =
                    engines.count(|| enter(&mut workers, self.procs, phase, round))?;
                let measured = sample(round, &done);
                rates.push(measured.rate());
                row.stripes = Some(store.stripes());
                row.fields = Some(row.fields.unwrap_or(0) + measured.tally.ops);
                row.requests.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                Ok(())
            });
            drop(store);
            let destroyed = pool.destroy_container(&label, true).wait();
            done.and(destroyed)?;
        }
        for (row, rates) in rows.iter_mut().zip(&rates) {
            row.fields_per_s = rounded(Statistics::rounded(rates).median);
        }
        Ok(rows)
    }

    /// Measures Field I/O with as many fields. All processes use one index.
    fn field_io(&self, engines: &Engines) -> Result<Vec<Row>> {
        let folder = Scratch::for_plain_files(&memory_or_temporary())?;
        let runner = Runner::new(folder.path().to_owned(), self.variables.to_vec())?;
        let Self { name, procs, plan: FieldsPlan { shape, repeats, pin, seed, .. }, .. } = self;
        let pin = pin.name();
        let (ops, size) = (shape.fields(), shape.size_bytes);
        let words = format!(
            "field-io --pool {name} --mode no-containers --pattern A --contention high --procs {procs} --ops {ops} --size {size} --repeat {repeats} --pin {pin} --seed {seed}"
        );
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let (report, requests) = engines.count(|| runner.bench("field-io", &words))?;
        let rows = report.runs.iter().filter_map(|run| {
            let repeat = &run.parallel.as_ref()?.repeat;
            let bytes_per_s = repeat.global_timing_bandwidth_mib_s.median * MIB;
            Some(Row {
                fields_per_s: rounded(bytes_per_s / size as f64),
                requests: requests.clone(),
                ..self.row(engines, "field-io", &run.phase)
            })
        });
        Ok(rows.collect())
    }
}
