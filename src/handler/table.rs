//! The assignment of handlers to plugin types.

use std::fmt;

use super::PluginHandler;

/// The handlers, and the types of each.
#[derive(Default)]
pub struct HandlerTable {
    /// The handlers, by number; `None` for a handler that was dropped.
    handlers: Vec<Option<Box<dyn PluginHandler>>>,
    /// Sorted by type.
    by_type: Vec<(String, HandlerId)>,
    unknown: Unknown,
}

/// The treatment of plugins of a type without a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The plugins are refused and notified of that, as kubelet does.
    #[default]
    Refused,
    /// The plugins are ignored: nothing is sent to them.
    Ignored,
    /// The plugins are passed to this handler.
    GivenTo(HandlerId),
}

/// The number of a handler in its [`HandlerTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(u32);

impl HandlerTable {
    /// Creates a table without handlers: every plugin is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `handler` and assigns plugins of these types to it, instead of to an earlier handler.
    /// Returns the handler's number in this table.
    pub fn add<T: Into<String>>(
        &mut self,
        types: impl IntoIterator<Item = T>,
        handler: impl PluginHandler + 'static,
    ) -> HandlerId {
        let id = HandlerId(u32::try_from(self.handlers.len()).unwrap_or(u32::MAX));
        self.handlers.push(Some(Box::new(handler)));
        for kind in types {
            self.assign(&kind.into(), id);
        }
        id
    }

    /// Assigns plugins of this type to the handler with that number.
    pub fn assign(&mut self, kind: &str, id: HandlerId) {
        match self.position(kind) {
            Ok(at) => self.by_type[at].1 = id,
            Err(at) => self.by_type.insert(at, (kind.to_owned(), id)),
        }
    }

    /// Unassigns a type: its plugins are treated as those of a type without a handler.
    pub fn unassign(&mut self, kind: &str) {
        self.by_type.retain(|(it, _)| it != kind);
    }

    /// Sets the treatment of plugins of a type without a handler.
    pub fn set_unknown(&mut self, unknown: Unknown) {
        self.unknown = unknown;
    }

    /// Returns whether plugins of a type without a handler are ignored.
    pub fn ignores_unknown(&self) -> bool {
        self.unknown == Unknown::Ignored
    }

    /// Returns the handler that is assigned to exactly the type `kind`, else the one for unknown
    /// types, if there is one.
    pub fn find(&self, kind: &str) -> Option<HandlerId> {
        match (self.position(kind), self.unknown) {
            (Ok(at), _) => Some(self.by_type[at].1),
            (Err(_), Unknown::GivenTo(id)) => Some(id),
            (Err(_), Unknown::Refused | Unknown::Ignored) => None,
        }
    }

    /// Returns whether a handler is assigned to type `kind` by name.
    pub fn is_assigned(&self, kind: &str) -> bool {
        self.position(kind).is_ok()
    }

    fn position(&self, kind: &str) -> Result<usize, usize> {
        self.by_type.binary_search_by(|(it, _)| (**it).cmp(kind))
    }

    /// Returns the handler with that number, or `None` if it was dropped.
    pub fn get_mut(&mut self, id: HandlerId) -> Option<&mut (dyn PluginHandler + 'static)> {
        self.handlers.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Removes and returns the handler with that number. Types stay assigned to that number.
    pub(crate) fn remove(&mut self, id: HandlerId) -> Option<Box<dyn PluginHandler>> {
        self.handlers.get_mut(id.0 as usize)?.take()
    }

    /// Returns the handlers to which neither a type nor the unknown types are assigned.
    pub(crate) fn unassigned_handlers(&self) -> impl Iterator<Item = HandlerId> {
        let ids = self.handlers.iter().zip(0..);
        let ids = ids.filter_map(|(handler, id)| handler.is_some().then_some(HandlerId(id)));
        ids.filter(|id| {
            let has_type = self.by_type.iter().any(|(_, it)| it == id);
            !has_type && self.unknown != Unknown::GivenTo(*id)
        })
    }

    /// Returns the handler with that number, or `None` if it was dropped.
    pub(crate) fn get(&self, id: HandlerId) -> Option<&(dyn PluginHandler + 'static)> {
        self.handlers.get(id.0 as usize)?.as_deref()
    }

    /// Returns the part of the registration of a plugin of type `kind` that a dry run leaves out,
    /// or `None` if it leaves nothing out or the type has no handler.
    pub fn not_checked(&self, kind: &str) -> Option<&'static str> {
        self.get(self.find(kind)?)?.not_checked()
    }

    /// Returns the types to which a handler is assigned by name, sorted.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.by_type.iter().map(|(kind, _)| &**kind)
    }
}

impl fmt::Debug for HandlerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerTable")
            .field("by_type", &self.by_type)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::AcceptHandler;

    #[test]
    fn a_handler_is_found_by_the_exact_type() {
        let mut table = HandlerTable::new();
        table.add(["CSIPlugin", "DRAPlugin"], AcceptHandler);
        table.add(["DRAPlugin"], AcceptHandler);
        assert_eq!(table.find("CSIPlugin"), Some(HandlerId(0)));
        assert_eq!(table.find("DRAPlugin"), Some(HandlerId(1)));
        assert_eq!(table.find("csiplugin"), None);
        assert_eq!(table.find(""), None);
    }

    #[test]
    fn plugins_of_unknown_types_are_refused() {
        let mut table = HandlerTable::new();
        let csi = table.add(["CSIPlugin"], AcceptHandler);
        let generic = table.add(["Toaster"], AcceptHandler);
        assert_eq!((table.find("X"), table.ignores_unknown()), (None, false));
        table.set_unknown(Unknown::Ignored);
        assert_eq!((table.find("X"), table.ignores_unknown()), (None, true));
        table.set_unknown(Unknown::GivenTo(generic));
        assert_eq!(table.find("X"), Some(generic));
        assert_eq!(table.find("CSIPlugin"), Some(csi));
    }
}
