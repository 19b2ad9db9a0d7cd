//! `#[subscriber]`: read the arguments, read the function, write the handler.
//!
//! Every fault is collected on the way and reported at once. The items are written in any case, so that a fault in one
//! place causes no second error where the subscriber is mounted.

mod args;
mod expand;
mod signature;

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use args::Args;
use signature::Function;

pub(crate) fn subscriber(args: TokenStream, item: &TokenStream) -> TokenStream {
    let function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = Error::new(
                error.span(),
                format!("`#[subscriber]` goes on an `async fn`: {error}"),
            );
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    let mut errors = Vec::new();
    let args = Args::parse(args, &mut errors);
    let arguments = function.arguments(&mut errors);
    let items = expand::expand(&args, &function, arguments.as_ref());
    let errors = errors.iter().map(Error::to_compile_error);
    quote!(#(#errors)* #items)
}
