//! The only dataset of a file.
use super::groups::GROUPS_MAX;
use super::source::{hdf5_error, invalid};
use esker_types::Result;
use hdf5_reader::group::Group;
use hdf5_reader::{Dataset, Hdf5File};
use std::collections::HashSet;

/// Datasets that a message names.
const NAMED_MAX: usize = 10;

/// The only dataset of a file. If there are several, the error names some of them.
pub(super) fn only(file: &Hdf5File, path: &str) -> Result<Dataset> {
    let failed = |error| hdf5_error(path, error);
    let mut found = Found::default();
    found.collect(&file.root_group().map_err(failed)?, "", 0).map_err(failed)?;
    match found.datasets.as_slice() {
        [] => Err(invalid(format!("{path} has no dataset"))),
        [one] => file.dataset(one).map_err(failed),
        several => {
            let names = several[..several.len().min(NAMED_MAX)].join(", ");
            Err(invalid(format!(
                "{path} has several datasets: write {path}:DATASET, such as {names}"
            )))
        }
    }
}

/// Datasets found so far in a file. Objects may have several names, and groups may contain themselves.
#[derive(Default)]
struct Found {
    /// Paths of datasets, by the first name of each.
    datasets: Vec<String>,
    /// Addresses of objects.
    seen: HashSet<u64>,
}

impl Found {
    /// Collects the datasets of a group and of the groups in it, until enough for a message are found. `path` is the
    /// path of the group, `level` the number of groups above it.
    fn collect(
        &mut self,
        group: &Group,
        path: &str,
        level: usize,
    ) -> hdf5_reader::error::Result<()> {
        if !self.seen.insert(group.address()) {
            return Ok(());
        }
        let (groups, datasets) = group.member_names()?;
        for name in &datasets {
            if self.datasets.len() > NAMED_MAX {
                break;
            }
            // A dataset that cannot be read counts too.
            let is_known = group.dataset(name).is_ok_and(|one| !self.seen.insert(one.address()));
            if !is_known {
                self.datasets.push(format!("{path}/{name}"));
            }
        }
        for name in &groups {
            if level < GROUPS_MAX && self.datasets.len() <= NAMED_MAX {
                self.collect(&group.group(name)?, &format!("{path}/{name}"), level + 1)?;
            }
        }
        Ok(())
    }
}
