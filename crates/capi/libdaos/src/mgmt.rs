//! Management of the system (`daos_mgmt.h`).
use crate::abi::{Bytes, Event, Handle, Ptr, RankList, Str, UuidBytes};
use crate::boundary;
use crate::code::{Code, Result};
use crate::event;
use crate::init::VERSION;
use crate::memory;
use crate::property::rank_list;
use esker::names;
use std::ffi::{c_char, c_int};

/// `daos_mgmt_pool_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ListedPool {
    /// UUID.
    pub uuid: UuidBytes,
    /// Label.
    pub label: Str,
    /// Ranks of its service.
    pub svc: Ptr<RankList>,
    /// The rank of the leader.
    pub ldr: u32,
}

/// `struct daos_sys_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SysInfo {
    /// Name of the system.
    pub system_name: [c_char; 64],
    /// The transport.
    pub fabric_provider: [c_char; 64],
    /// The socket of the agent.
    pub agent_path: [c_char; 4096],
    /// Entries in `ranks`.
    pub nr_ranks: u32,
    /// Ranks and their addresses.
    pub ranks: Bytes,
    /// Entries in `ms_ranks`.
    pub nr_ms_ranks: u32,
    /// Ranks of the management service.
    pub ms_ranks: Ptr<u32>,
}

/// `DAOS_SYS_NAME_MAX`.
const NAME_MAX: usize = 15;
/// The default name of the system.
pub(crate) const SYSTEM: &str = "daos_server";

/// A text for a field of fixed length, cut if needed, with a zero byte at its end.
fn text<const BYTES: usize>(text: &str) -> [c_char; BYTES] {
    let mut room = [0; BYTES];
    for (cell, byte) in room[..BYTES - 1].iter_mut().zip(text.bytes()) {
        *cell = byte as c_char;
    }
    room
}

/// Returns information about the system, which has neither agent nor ranks.
#[unsafe(no_mangle)]
pub extern "C" fn daos_mgmt_get_sys_info(sys: Str, info: Ptr<Ptr<SysInfo>>) -> c_int {
    boundary::now(|| {
        let name = if sys.is_null() { SYSTEM } else { sys.text()? };
        if name.len() > NAME_MAX {
            return Err(Code::OVERFLOW);
        }
        info.needed()?.set(memory::one(SysInfo {
            system_name: text(name),
            fabric_provider: text("local"),
            agent_path: text(""),
            nr_ranks: 0,
            ranks: Ptr::null(),
            nr_ms_ranks: 0,
            ms_ranks: Ptr::null(),
        })?);
        Ok(())
    })
}

/// Frees information about the system.
#[unsafe(no_mangle)]
pub extern "C" fn daos_mgmt_put_sys_info(info: Ptr<SysInfo>) {
    memory::free(info);
}

/// Lists the pools in the pool directories. With an event, a thread for blocking work reads the directories.
#[unsafe(no_mangle)]
pub extern "C" fn daos_mgmt_list_pools(
    _group: Str,
    count: Ptr<u64>,
    pools: Ptr<ListedPool>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || Ok(event::blocking(move || list(count, pools))))
}

/// Lists the pools into `pools`, which has room for `count` of them, or only counts them if it is null. `count` becomes
/// their number.
fn list(count: Ptr<u64>, pools: Ptr<ListedPool>) -> Result<()> {
    let room = count.get()?;
    let known = names::list();
    count.set(known.len() as u64);
    if pools.is_null() {
        return Ok(());
    }
    if known.len() as u64 > room {
        return Err(Code::OVERFLOW);
    }
    for (index, (_, pool)) in known.iter().enumerate() {
        pools.at(index).set(ListedPool {
            uuid: pool.uuid.0,
            label: memory::string(pool.label.as_bytes())?,
            svc: rank_list(&[0])?,
            ldr: 0,
        });
    }
    Ok(())
}

/// Returns the version of the servers. As Esker has none, this is the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn dc_mgmt_srv_version(
    major: Ptr<u32>,
    minor: Ptr<u32>,
    patch: Ptr<u32>,
    tag: Ptr<Str>,
) -> c_int {
    boundary::always(|| {
        let outputs = [major.needed()?, minor.needed()?, patch.needed()?];
        tag.needed()?.set(Ptr::null());
        outputs.iter().zip(VERSION).for_each(|(output, number)| output.set(number.into()));
        Ok(())
    })
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_stop_svc(_poh: Handle, ev: Ptr<Event>) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_debug_set_params(
    _group: Str,
    _rank: u32,
    _key: u32,
    _value: u64,
    _extra: u64,
    ev: Ptr<Event>,
) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_debug_add_mark(_mark: Str) -> c_int {
    boundary::not_offered(Ptr::null())
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_mgmt_get_bs_state(
    _group: Str,
    _uuid: Ptr<UuidBytes>,
    _state: Ptr<c_int>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented: a transaction belongs to one process.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_local2global(_th: Handle, _glob: Bytes) -> c_int {
    boundary::not_offered(Ptr::null())
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_global2local(
    _coh: Handle,
    _glob: crate::abi::Iov,
    _th: Ptr<Handle>,
) -> c_int {
    boundary::not_offered(Ptr::null())
}
