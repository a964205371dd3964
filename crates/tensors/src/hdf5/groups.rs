//! Groups, and the path of a dataset through them.
use super::pack::{NOWHERE, ObjectHeader, message};
use esker_types::Result;

/// Longest path of a dataset: each of its names except the last is a group. A dataset is searched as deep.
pub(super) const GROUPS_MAX: usize = 100;

/// The path of the dataset of a tensor: its name, with a group for each `/`; `data` if it has no name, or none that
/// HDF5 allows.
pub(super) fn path(name: Option<&str>) -> Vec<String> {
    let names: Vec<&str> = name.unwrap_or_default().split('/').collect();
    let is_path =
        names.iter().all(|name| !matches!(*name, "" | "." | "..")) && names.len() <= GROUPS_MAX;
    let names = if is_path { names } else { vec!["data"] };
    names.into_iter().map(str::to_owned).collect()
}

/// The headers of the groups on the path to the object at `address`, to be stored at `start`, and the address of the
/// root group.
pub(super) fn groups(path: &[String], mut address: u64, start: u64) -> Result<(Vec<u8>, u64)> {
    let mut bytes = Vec::new();
    for name in path.iter().rev() {
        let header = group(name, address)?;
        address = start + bytes.len() as u64;
        bytes.extend(header);
    }
    Ok((bytes, address))
}

/// The header of a group with one member.
fn group(name: &str, address: u64) -> Result<Vec<u8>> {
    let mut header = ObjectHeader::default();
    let nowhere = NOWHERE.to_le_bytes();
    // Each message begins with its version and its flags.
    header.push(message::LINK_INFO, &[&[0, 0][..], &nowhere, &nowhere].concat(), "a group")?;
    header.push(message::GROUP_INFO, &[0, 0], "a group")?;
    // A hard link: its name is in UTF-8 and has a length of two bytes.
    let length = (name.len() as u16).to_le_bytes();
    let link = [&[1, 0x11, 1][..], &length, name.as_bytes(), &address.to_le_bytes()].concat();
    header.push(message::LINK, &link, "a name")?;
    Ok(header.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths() {
        assert_eq!(path(Some("t2m")), ["t2m"]);
        assert_eq!(path(Some("a/b c")), ["a", "b c"]);
        for name in [None, Some("/a"), Some("a//b"), Some("../a")] {
            assert_eq!(path(name), ["data"]);
        }
    }
}
