//! The `#[subscriber]` attribute.
/// x
#[proc_macro_attribute]
pub fn subscriber(_: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream { item }
