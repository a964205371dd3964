//! `esker fs cat`.
use super::place::{FsPath, Mounts, NAMING, at, inside};
use crate::commands::files::Sink;
use crate::output::Answer;
use clap::Args;
use dfs::transfer::BUFFER_BYTES;
use dfs::{File, Follow, Open};
use esker::types::{Error, ErrorKind, Result};
use esker_bench::units::Bytes;
use serde_json::Value;
use std::path::Path;

/// Write files to standard output
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Cat {
    /// Files
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Begin here in each file
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// At most so many bytes of each file
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
}

impl Cat {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        if json {
            let message = "the bytes of a file are no JSON; `esker fs cp` copies it to a file";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (mut mounts, mut buffer) = (Mounts::reading(), vec![0; BUFFER_BYTES]);
        let mut out = Sink::create(Path::new("-"))?;
        for path in &self.paths {
            let file = mounts.node(path, Follow::All)?.open(Open::READ);
            let file = file.map_err(|error| at(path, &error))?;
            self.write(&file, &mut buffer, &mut out)?;
        }
        out.finish()?;
        Ok(Answer::new(Value::Null, ""))
    }

    fn write(&self, file: &File, buffer: &mut [u8], out: &mut Sink) -> Result<()> {
        let mut offset = self.offset.0;
        let end = offset.saturating_add(self.length.map_or(u64::MAX, |length| length.0));
        while offset < end {
            let wanted = (end - offset).min(buffer.len() as u64) as usize;
            let count = file.read_at(offset, &mut buffer[..wanted])?;
            if count == 0 {
                break;
            }
            out.write(&buffer[..count])?;
            offset += count as u64;
        }
        Ok(())
    }
}
