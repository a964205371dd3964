//! Trees that get one thing wrong on purpose, each in a way that file systems have.
use crate::compare::Tree;
use crate::replay::Replay;

/// A mistake: how an operation is done wrong. What it leaves as it is, is done right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub name: &'static str,
    pub distort: fn(&str) -> String,
}

/// One word for another in the operations of one kind.
macro_rules! fault {
    ($name:literal, $operation:literal, $from:literal => $to:literal) => {
        Fault {
            name: $name,
            distort: |line| match line.strip_prefix(concat!($operation, " ")) {
                Some(rest) => format!(concat!($operation, " {}"), rest.replacen($from, $to, 1)),
                None => line.to_owned(),
            },
        }
    };
}

pub(crate) const FAULTS: [Fault; 9] = [
    fault!("exchange replaces", "rename", " exchange" => " replace"),
    fault!("rename ignores noreplace", "rename", " noreplace" => " replace"),
    fault!("files are not truncated when opened", "open", "+trunc" => ""),
    fault!("appends go where the offset is", "open", "+append" => ""),
    fault!("an existing file is opened exclusively", "open", "+excl" => ""),
    fault!("punched ranges keep their data", "fallocate", " punch " => " keep "),
    fault!("allocating beyond the end keeps the size", "fallocate", " alloc " => " keep "),
    Fault { name: "lstat follows links", distort: |line| line.replacen("lstat ", "stat ", 1) },
    fault!("attributes are replaced where they should be new", "setxattr", " create" => " any"),
];

/// The reference with a fault.
pub(crate) struct Faulty(pub Fault);

impl Tree for Faulty {
    fn replay(&self, sequence: &[String]) -> Vec<String> {
        let distorted: Vec<_> = sequence.iter().map(|line| (self.0.distort)(line)).collect();
        Replay::in_memory().replay(&distorted)
    }
}
