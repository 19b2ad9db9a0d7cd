//! `#[subscriber]`: read the arguments, read the function, write the handler.
//!
//! Every fault is collected on the way, and all are reported at once. The items are written in any case, so that a fault
//! causes no second error where the subscriber is mounted.

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The code blocks of the documented expansion: the function, and what becomes of it.
    fn documented() -> (TokenStream, TokenStream) {
        let blocks = include_str!("../expansion.md").split("```").skip(1).step_by(2);
        let shown = |block: &str| {
            block
                .lines()
                .filter(|line| !line.starts_with("# "))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let mut blocks = blocks.map(|block| shown(block).parse().unwrap());
        (blocks.next().unwrap(), blocks.next().unwrap())
    }

    fn expanded(annotated: TokenStream) -> TokenStream {
        let mut function: syn::ItemFn = syn::parse2(annotated).unwrap();
        let attribute = function.attrs.remove(0);
        subscriber(
            attribute.meta.require_list().unwrap().tokens.clone(),
            &quote!(#function),
        )
    }

    #[test]
    fn the_documented_expansion_is_the_real_one() {
        let (annotated, becomes) = documented();
        // How a text was spaced is remembered; it does not matter here.
        let text = |tokens: TokenStream| tokens.to_string().replace(char::is_whitespace, "");
        assert_eq!(text(expanded(annotated)), text(becomes));
    }

    #[test]
    fn nothing_names_ruststream_when_the_attribute_says_where_it_is() {
        let expanded = expanded(quote! {
            #[subscriber("orders", crate = company::kafka)]
            async fn bill(order: Option<&Order>, key: Key<&str>) {}
        });
        assert!(!expanded.to_string().contains("ruststream"), "{expanded}");
        assert!(
            expanded
                .to_string()
                .contains("company :: kafka :: __private :: Handler"),
            "{expanded}"
        );
    }

    #[test]
    fn every_fault_is_reported_at_once_and_the_items_are_written_all_the_same() {
        let expanded = expanded(quote! {
            #[subscriber(name = "a", retries = 3, name = "b", concurrency = , concurrency = 2)]
            unsafe fn bill<T>(self, order: T, all: Vec<impl Send>) {}
        });
        let text = expanded.to_string();
        let faults = text.matches("compile_error").count();
        // retries, name, concurrency, the topic, async, unsafe, T, self, impl Send.
        assert_eq!(faults, 9, "{text}");
        for item in [
            "struct bill",
            "fn bill () ->",
            "unsafe fn body",
            "Handler for bill",
            "concurrency (subscriber , 2)",
        ] {
            assert!(text.contains(item), "{item} is missing in {text}");
        }
    }

    #[test]
    fn an_item_that_is_no_function_is_left_as_it_is() {
        let item = quote!(
            struct Bill;
        );
        let text = subscriber(quote!("orders"), &item).to_string();
        assert!(text.ends_with(&item.to_string()), "{text}");
    }

    #[test]
    fn a_block_that_does_not_parse_is_left_to_rustc() {
        let item = quote!(async fn bill(order: u64) { order. });
        let text = subscriber(quote!("orders"), &item).to_string();
        assert!(text.contains("{ order . }"), "{text}");
        assert!(!text.contains("compile_error"), "{text}");
    }
}
