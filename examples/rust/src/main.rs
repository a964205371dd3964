//! A tour of Esker's Rust API: `cargo run -p esker-example -- DIRECTORY` creates a pool `tour` in the directory,
//! stores an index and a field in it, and changes both at once. `/dev/shm` keeps the pool in memory.
#![forbid(unsafe_code)]

use esker::prelude::*;
use esker_store::PoolSpec;
use std::path::Path;
use std::process::ExitCode;

/// Size of a cell in bytes: one `f64`.
const CELL: usize = 8;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: tour DIRECTORY");
        return ExitCode::from(2);
    };
    match tour(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tour: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Creates the pool, changes what is in it, and prints the values of now and of a snapshot before the change.
fn tour(directory: &Path) -> Result<()> {
    let pool = create_pool(directory)?;
    let new = NewContainer::named("run1");
    pool.create_container(&new).wait()?;
    let run = pool.open_container("run1", OpenMode::ReadWrite).wait()?;

    let index = create_index(&run)?;
    let field = create_field(&run)?;
    let before = run.create_snapshot("before").wait()?;
    replace(&run, &index, &field)?;

    let then = run.at(before).wait()?;
    println!("now:    {} {:?}", text(&index, Access::Latest)?, values(&field, Access::Latest)?);
    println!("before: {} {:?}", text(&index, then)?, values(&field, then)?);
    Ok(())
}

/// A pool of 128 MiB. `esker pool create` does the same.
fn create_pool(directory: &Path) -> Result<Pool> {
    let spec = PoolSpec { targets: Some(2), ..PoolSpec::new("tour", 128 << 20) };
    esker_store::Pool::create(directory, &spec, &mut |_, _| {})?;
    let url = format!("esker:{}", directory.join("tour").display());
    println!("created {url}");
    Pool::connect(&url, OpenMode::ReadWrite)
}

/// A Key-Value holds values of any length under keys.
fn create_index(run: &Container) -> Result<Kv> {
    let index = run.kv(run.new_oid(ObjectType::KvHashed).generate(1)?)?;
    index.put(b"step", b"0", Cond::NONE, Access::Latest).wait()?;
    Ok(index)
}

/// An array holds cells of one size. Its chunks are distributed over the targets of the pool.
fn create_field(run: &Container) -> Result<Array> {
    let oid = run.new_oid(ObjectType::Array).generate(2)?;
    let shape = ArrayAttributes { cell_size: CELL as u64, chunk_size: 1 << 17 };
    let field = run.create_array(oid, shape, Access::Latest).wait()?;
    write(&field, &[280.0, 281.5, 279.25], Access::Latest)?;
    Ok(field)
}

/// Changes index and field in one transaction. If another process changed data that this one has read, the commit
/// fails with `TxRestart`, and the work is repeated.
fn replace(run: &Container, index: &Kv, field: &Array) -> Result<()> {
    let change = run.transaction()?;
    loop {
        match step(&change, index, field) {
            Err(error) if error.kind() == ErrorKind::TxRestart => change.restart()?,
            done => return done,
        }
    }
}

/// One attempt of `replace`: reads the step, writes the next one and its field, and commits.
fn step(change: &Transaction, index: &Kv, field: &Array) -> Result<()> {
    let access = Access::Tx(change);
    let step: u32 =
        text(index, access)?.parse().map_err(|_| invalid("the step is not a number"))?;
    let next = (step + 6).to_string();
    index.put(b"step", next.as_bytes(), Cond::NONE, access).wait()?;
    write(field, &[282.0, 283.5, 281.25], access)?;
    change.commit().wait()
}

/// Writes values from the first cell on.
fn write(field: &Array, values: &[f64], access: Access<'_>) -> Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let cells = [Extent::new(0, values.len() as u64)];
    field.write(&cells, Source::One(&bytes), access).wait()
}

/// The three values of the field.
fn values(field: &Array, access: Access<'_>) -> Result<Vec<f64>> {
    let mut bytes = vec![0; 3 * CELL];
    field.read(&[Extent::new(0, 3)], Sink::One(&mut bytes), access).wait()?;
    let (cells, _) = bytes.as_chunks::<CELL>();
    Ok(cells.iter().map(|cell| f64::from_le_bytes(*cell)).collect())
}

/// The step in the index, as text.
fn text(index: &Kv, access: Access<'_>) -> Result<String> {
    let value = index.get(b"step", access).wait()?.unwrap_or_default();
    String::from_utf8(value).map_err(|_| invalid("the step is not text"))
}

/// An error about a value that cannot be used.
fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
