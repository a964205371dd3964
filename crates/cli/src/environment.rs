//! Environment variables of users: the man page `esker-environment` and docs/environment.md list them.
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// An environment variable.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its default, or an empty text if it has none.
    pub default: &'static str,
    /// Commands and libraries that read it.
    pub readers: &'static str,
    /// Meaning of its value.
    pub meaning: &'static str,
}

/// All variables of users.
pub const VARIABLES: [Variable; 19] = [
    Variable {
        name: "ESKER_POOLS",
        default: "`pools` of the configuration, or `~/.local/share/esker/pools`",
        readers: "everything",
        meaning: "directories of pools, separated by colons; new pools are created in the first",
    },
    Variable {
        name: "ESKER_CONFIG",
        default: "`/etc/esker/esker.conf` and `~/.config/esker/esker.conf`",
        readers: "everything",
        meaning: "the only configuration file; if it is empty, none is read",
    },
    Variable {
        name: "ESKER_FIELDS",
        default: "`fields` of the configuration",
        readers: "`esker fields`, Python's `pyfdb`, `z3fdb` and `earthkit` target",
        meaning: "store of fields, as POOL/CONT",
    },
    Variable {
        name: "ESKER_MOUNT",
        default: "`mount` of the configuration, or `/esker`",
        readers: "`esker run`",
        meaning: "mount point",
    },
    Variable {
        name: "ESKER_LOG",
        default: "",
        readers: "libdaos",
        meaning: "if it is not empty, failed calls print their cause to standard error",
    },
    Variable {
        name: "ESKER_NODE",
        default: "all nodes of this machine",
        readers: "everything",
        meaning: "name of the node, of a pool over nodes, whose pool the process uses directly; `none`: it uses engines only",
    },
    Variable {
        name: "ESKER_SSH",
        default: "`ssh -T -o BatchMode=yes -o ConnectTimeout=15`",
        readers: "`esker pool create`",
        meaning: "command that starts engines on other nodes",
    },
    Variable {
        name: "ESKER_MPIRUN",
        default: "`mpirun`",
        readers: "`esker pool create`",
        meaning: "command that starts engines with `--launcher mpirun`",
    },
    Variable {
        name: "ESKER_ECCODES",
        default: "found by the loader, or in an active environment",
        readers: "fields",
        meaning: "file of ecCodes",
    },
    Variable {
        name: "ESKER_LIBFABRIC",
        default: "`libfabric.so.1`",
        readers: "`--transport fabric`",
        meaning: "file of libfabric",
    },
    Variable {
        name: "ESKER_LIBRADOS",
        default: "`librados.so.2`",
        readers: "`rados:` pools",
        meaning: "file of librados",
    },
    Variable {
        name: "ESKER_LIBDAOS",
        default: "`libdaos.so.2`",
        readers: "`daos:` pools",
        meaning: "file of DAOS's own libdaos",
    },
    Variable {
        name: "ESKER_PRELOAD",
        default: "in the directory of the command, `../lib/esker` or `../lib`",
        readers: "`esker run`",
        meaning: "file of the interception library",
    },
    Variable {
        name: "ESKER_BENCH_RADOS",
        default: "",
        readers: "`esker bench compare`",
        meaning: "URL of the pool on Ceph",
    },
    Variable {
        name: "ESKER_BENCH_DAOS",
        default: "",
        readers: "`esker bench compare`",
        meaning: "URL of the pool of a DAOS system",
    },
    Variable {
        name: "ESKER",
        default: "in the directory of `esker-bench`",
        readers: "`esker-bench`",
        meaning: "file of the command `esker`",
    },
    Variable {
        name: "XDG_DATA_HOME",
        default: "`~/.local/share`",
        readers: "everything",
        meaning: "the user's data directory, for the default of ESKER_POOLS",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        default: "`~/.config`",
        readers: "everything",
        meaning: "the user's configuration directory",
    },
    Variable {
        name: "NO_COLOR",
        default: "",
        readers: "`esker`",
        meaning: "if it is not empty, output has no colors",
    },
];

/// The man page.
pub(crate) fn page() -> String {
    let mut page = Roff::new();
    page.control("TH", ["esker-environment", "7"]);
    page.control("SH", ["NAME"]);
    page.text([roman("esker-environment - environment variables of Esker")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman("Options of commands take precedence over variables, and variables over the configuration file.")]);
    for variable in &VARIABLES {
        page.control("TP", []);
        page.text([bold(variable.name)]);
        page.text(describe(variable));
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("esker"), roman("(1)")]);
    page.render()
}

/// Description of a variable in the manual page.
fn describe(variable: &Variable) -> Vec<Inline> {
    let mut text = format!("{}: {}", variable.readers, variable.meaning);
    if !variable.default.is_empty() {
        text += &format!(" [default: {}]", variable.default);
    }
    vec![roman(text.replace('`', ""))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/environment.md");

    #[test]
    fn the_document_has_the_rows_of_the_man_page() {
        let rows: Vec<_> = VARIABLES
            .iter()
            .map(|Variable { name, default, readers, meaning }| {
                format!("| `{name}` | {default} | {readers} | {meaning} |").replace("|  |", "| |")
            })
            .collect();
        let lines = DOCUMENT.lines().skip_while(|line| !line.starts_with("| variable | default"));
        let listed: Vec<_> = lines.skip(2).take_while(|line| line.starts_with('|')).collect();
        assert_eq!(listed, rows);
    }

    #[test]
    fn the_man_page_names_every_variable() {
        let page = page();
        assert!(page.contains(".TH esker-environment 7"), "{page}");
        for variable in &VARIABLES {
            assert!(page.contains(variable.name), "{}", variable.name);
        }
    }
}
