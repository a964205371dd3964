//! Who may do what with a container: its list is kept, shown and changed here; [`super::rights`] goes by it.
use super::properties;
use crate::abi::{Bytes, Event, Handle, Prop, PropEntry, Ptr, Str};
use crate::acl::{self, Ace, Kind};
use crate::code::{Code, Result};
use crate::edge;
use crate::handles::{self, OpenContainer};
use crate::property::table::{self, CONTAINER};
use crate::property::{list, value::Value};
use std::ffi::c_int;

/// The list, the owner and the owner group, as a new list of properties.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_get_acl(coh: Handle, out: Ptr<Ptr<Prop>>, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            out.needed()?;
            let wanted = [table::CO_ACL, table::CO_OWNER, table::CO_OWNER_GROUP];
            let made = list::alloc(wanted.len() as u32)?;
            for (at, kind) in list::entries(made)?.into_iter().zip(wanted) {
                at.set(PropEntry { kind, ..PropEntry::default() });
            }
            if let Err(code) = show(&container, made).await {
                list::daos_prop_free(made);
                return Err(code);
            }
            out.set(made);
            Ok(())
        })
    })
}

async fn show(container: &OpenContainer, list: Ptr<Prop>) -> Result<()> {
    for (at, property) in properties::asked(list, &CONTAINER)? {
        properties::show(container, property).await?.give(at)?;
    }
    Ok(())
}

async fn keep(container: &OpenContainer, aces: Vec<Ace>) -> Result<()> {
    properties::set_one(container, table::CO_ACL, &Value::Acl(acl::pack(aces)?)).await
}

/// Puts a list in place of the one before.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_overwrite_acl(coh: Handle, acl: Bytes, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move { keep(&container, acl::unpack(acl::checked(acl)?)?).await })
    })
}

/// Adds entries; those for principals the list has replace theirs.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_update_acl(coh: Handle, acl: Bytes, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            let new = acl::unpack(acl::checked(acl)?)?;
            let mut aces = properties::acl_of(&container.container).await?;
            new.into_iter().for_each(|new| acl::list::merge(&mut aces, new));
            keep(&container, aces).await
        })
    })
}

/// Takes a principal out of the list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_delete_acl(coh: Handle, kind: u32, name: Str, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            container.rights.to_set(table::CO_ACL)?;
            let kind = Kind::from_code(kind)?;
            let name = if kind.has_name() { name.text()? } else { "" };
            let mut aces = properties::acl_of(&container.container).await?;
            let before = aces.len();
            aces.retain(|ace| !ace.is(kind, name));
            match aces.len() < before {
                true => keep(&container, aces).await,
                false => Err(Code::NONEXIST),
            }
        })
    })
}

/// Gives a container to another user, group, or both, whom this machine knows.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_owner(coh: Handle, user: Str, group: Str, ev: Ptr<Event>) -> c_int {
    set_owner(coh, user, group, true, ev)
}

/// Gives a container to a user, a group, or both.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_owner_no_check(
    coh: Handle,
    user: Str,
    group: Str,
    ev: Ptr<Event>,
) -> c_int {
    set_owner(coh, user, group, false, ev)
}

fn set_owner(coh: Handle, user: Str, group: Str, known: bool, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            if user.is_null() && group.is_null() {
                return Err(Code::INVAL);
            }
            if known {
                check_known(user, group)?;
            }
            for (id, name) in [(table::CO_OWNER, user), (table::CO_OWNER_GROUP, group)] {
                give_to(&container, id, name).await?;
            }
            Ok(())
        })
    })
}

fn check_known(user: Str, group: Str) -> Result<()> {
    if !user.is_null() {
        acl::accounts::uid_of(acl::principal::local(user)?)?;
    }
    if !group.is_null() {
        acl::accounts::gid_of(acl::principal::local(group)?)?;
    }
    Ok(())
}

async fn give_to(container: &OpenContainer, id: u32, name: Str) -> Result<()> {
    if name.is_null() {
        return Ok(());
    }
    let name = name.text()?;
    match acl::principal::is_valid(name) {
        true => properties::set_one(container, id, &Value::Text(name.to_owned())).await,
        false => Err(Code::INVAL),
    }
}
