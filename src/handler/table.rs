//! Which handler does the work for which type.
//!
//! Pure.

use std::collections::BTreeMap;

use super::PluginHandler;

/// The handlers, and the types that each is for.
#[derive(Debug, Default)]
pub struct HandlerTable {
    handlers: Vec<Box<dyn PluginHandler>>,
    by_type: BTreeMap<String, HandlerId>,
}

/// Names a handler of one [`HandlerTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(usize);

impl HandlerTable {
    /// A table without handlers: every plugin is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `handler` the plugins of these types, which no other handler gets any longer.
    pub fn add<T: Into<String>>(
        &mut self,
        types: impl IntoIterator<Item = T>,
        handler: impl PluginHandler + 'static,
    ) {
        let id = HandlerId(self.handlers.len());
        self.handlers.push(Box::new(handler));
        self.by_type
            .extend(types.into_iter().map(|kind| (kind.into(), id)));
    }

    /// The handler for plugins of type `kind`: the name must match to the letter.
    pub fn find(&self, kind: &str) -> Option<HandlerId> {
        self.by_type.get(kind).copied()
    }

    /// The handler of that name.
    pub fn get_mut(&mut self, id: HandlerId) -> &mut dyn PluginHandler {
        self.handlers[id.0].as_mut()
    }

    /// The types that there are handlers for, sorted.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.by_type.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::AcceptHandler;

    #[test]
    fn a_handler_is_found_by_the_exact_type_and_the_last_one_added_wins() {
        let mut table = HandlerTable::new();
        table.add(["CSIPlugin", "DRAPlugin"], AcceptHandler::default());
        table.add(["DRAPlugin"], AcceptHandler::default());
        assert_eq!(table.find("CSIPlugin"), Some(HandlerId(0)));
        assert_eq!(table.find("DRAPlugin"), Some(HandlerId(1)));
        assert_eq!(table.find("csiplugin"), None);
        assert_eq!(table.find(""), None);
    }
}
