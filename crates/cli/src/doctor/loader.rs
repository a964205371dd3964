//! Libraries that the dynamic loader finds without `LD_LIBRARY_PATH`: in its cache, then in its default directories.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const CACHE: &str = "/etc/ld.so.cache";
/// Start of the table of glibc 2.2 and later. Older versions of `ldconfig` write another table before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Length of the table's header, whose first field after the magic number counts the entries.
const HEADER_LEN: usize = 48;
/// Length of an entry: flags, offset of the name, offset of the path, and 12 bytes on the processor.
const ENTRY_LEN: usize = 24;
/// Directories that the loader of some distribution searches after the cache.
const DEFAULTS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The library of this name that the loader finds.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let cache = std::fs::read(CACHE).unwrap_or_default();
    let cached = find_in_cache(&cache, name).filter(|path| path.exists());
    cached.or_else(|| {
        default_directories().map(|folder| folder.join(name)).find(|path| path.exists())
    })
}

/// Debian's own directories, which have the name of the architecture, and those of other distributions.
fn default_directories() -> impl Iterator<Item = PathBuf> {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let debian = ["/lib", "/usr/lib"].map(|folder| Path::new(folder).join(&machine));
    debian.into_iter().chain(DEFAULTS.map(PathBuf::from))
}

/// The path of the first entry of this name. Offsets count from the start of the table.
fn find_in_cache(cache: &[u8], name: &str) -> Option<PathBuf> {
    let start = cache.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let table = cache.get(start..)?;
    let entries = table.get(HEADER_LEN..)?.chunks_exact(ENTRY_LEN);
    let count = number(table, MAGIC.len())?;
    // In an entry, the offset of the name is at byte 4, and that of the path at byte 8.
    let mut named = entries.take(count).filter(|entry| {
        number(entry, 4).and_then(|offset| text(table, offset)) == Some(name.as_bytes())
    });
    let path = text(table, number(named.next()?, 8)?)?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// The number of 4 bytes at this offset, in the byte order of the machine.
fn number(bytes: &[u8], offset: usize) -> Option<usize> {
    let bytes = bytes.get(offset..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_ne_bytes(*bytes)).ok()
}

/// The text at this offset, up to a zero byte.
fn text(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let bytes = bytes.get(offset..)?;
    bytes.get(..bytes.iter().position(|byte| *byte == 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with these names and paths.
    fn cache(libraries: &[(&str, &str)]) -> Vec<u8> {
        let count = u32::try_from(libraries.len()).unwrap();
        let mut table = [MAGIC, &count.to_ne_bytes(), &[0; HEADER_LEN - 24]].concat();
        let mut texts = Vec::new();
        let start = HEADER_LEN + libraries.len() * ENTRY_LEN;
        for (name, path) in libraries {
            let offset = |texts: &Vec<u8>| u32::try_from(start + texts.len()).unwrap();
            let name_offset = offset(&texts);
            texts.extend([name.as_bytes(), b"\0"].concat());
            let path_offset = offset(&texts);
            texts.extend([path.as_bytes(), b"\0"].concat());
            let fields = [0x0303, name_offset, path_offset, 0, 0, 0];
            table.extend(fields.iter().flat_map(|field| field.to_ne_bytes()));
        }
        table.extend(texts);
        table
    }

    const LIBRARIES: [(&str, &str); 3] = [
        ("libz.so.1", "/lib/libz.so.1"),
        ("libdaos.so.2", "/opt/a/libdaos.so.2"),
        ("libdaos.so.2", "/opt/b/libdaos.so.2"),
    ];

    #[test]
    fn first_library_of_a_name_is_found() {
        let old_table = [b"ld.so-1.7.0\0...".as_slice(), &cache(&LIBRARIES)].concat();
        for cache in [cache(&LIBRARIES), old_table] {
            let found = find_in_cache(&cache, "libdaos.so.2");
            assert_eq!(found, Some("/opt/a/libdaos.so.2".into()));
            assert_eq!(find_in_cache(&cache, "libdaos.so"), None);
        }
    }

    #[test]
    fn damaged_cache_has_no_libraries_or_those_that_are_whole() {
        let whole = cache(&LIBRARIES);
        for length in 0..whole.len() {
            let found = find_in_cache(&whole[..length], "libdaos.so.2");
            assert!(found.is_none_or(|path| path.starts_with("/opt")), "{length}");
        }
        let wild: Vec<_> =
            whole[..HEADER_LEN].iter().copied().chain([255; 2 * ENTRY_LEN]).collect();
        assert_eq!(find_in_cache(&wild, "libdaos.so.2"), None);
    }

    #[test]
    fn c_library_is_found_where_there_is_glibc() {
        let name = "libc.so.6";
        if let Some(path) = find(name) {
            assert!(path.is_absolute() && path.ends_with(name), "{}", path.display());
        }
    }
}
