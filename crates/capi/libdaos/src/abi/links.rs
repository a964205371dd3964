//! Doubly linked lists with links inside the listed structures (`gurt/list.h`).
use super::Ptr;

/// `d_list_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Link {
    /// The next link.
    pub next: Ptr<Link>,
    /// The previous link.
    pub prev: Ptr<Link>,
}

impl PartialEq for Ptr<Link> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.raw(), other.raw())
    }
}

impl Ptr<Link> {
    /// Makes this link point to itself, as an empty list, or a link that is in no list, does.
    pub fn reset(self) {
        self.set(Link { next: self, prev: self });
    }

    /// True for an empty list, a link that is in no list, and a null pointer.
    #[must_use]
    pub fn is_alone(self) -> bool {
        self.get().map_or(true, |link| link.next == self)
    }

    /// Inserts `link` after this one.
    pub fn insert_after(self, link: Self) {
        let Ok(here) = self.get() else { return };
        link.set(Link { next: here.next, prev: self });
        self.set(Link { next: link, ..here });
        if let Ok(after) = here.next.get() {
            here.next.set(Link { prev: link, ..after });
        }
    }

    /// Inserts `link` before this one.
    pub fn insert_before(self, link: Self) {
        if let Ok(here) = self.get() {
            here.prev.insert_after(link);
        }
    }

    /// Removes the link from the list that it is in, and makes its neighbours neighbours of each other.
    pub fn remove(self) {
        let Ok(link) = self.get() else { return };
        if let Ok(before) = link.prev.get() {
            link.prev.set(Link { next: link.next, ..before });
        }
        if let Ok(after) = link.next.get() {
            link.next.set(Link { prev: link.prev, ..after });
        }
        self.reset();
    }

    /// The links of the list that starts here. The caller may remove the link it was just given.
    pub fn links(self) -> impl Iterator<Item = Self> {
        let mut next = self.get().ok().map(|head| head.next);
        std::iter::from_fn(move || {
            let link = next.filter(|link| *link != self && !link.is_null())?;
            next = link.get().ok().map(|link| link.next);
            Some(link)
        })
    }
}
