//! The `#[subscriber]` attribute of `ruststream`. Use it through `ruststream`, which re-exports it.
#![forbid(unsafe_code)]

mod subscriber;

/// Makes an async function a subscriber of a topic.
#[proc_macro_attribute]
pub fn subscriber(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    subscriber::subscriber(args.into(), &item.into()).into()
}
