//! What the attribute writes: a type of the function's name, its constructor, the function as `body`, and the handler.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Type, parse_quote};

use super::args::Args;
use super::signature::{Arguments, Decode, Function, Payload};

/// Tokens that lie at the attribute and whose locals the user's expressions cannot see.
macro_rules! ours {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site()=> $($tokens)*) };
}

pub(super) fn expand(args: &Args, function: &Function, arguments: Option<&Arguments>) -> TokenStream {
    let root = &args.root;
    let private = ours!(#root::__private);
    let names = Names::of(&function.sig.ident);
    let handler = handler(function, &names);
    let constructor = constructor(&private, args, function, &names);
    let body = body(function, &names);
    let call = call(&private, function, &names, arguments);
    let requires = arguments.map(|arguments| requires(&private, arguments));
    let ty = &names.ty;
    ours! {
        #handler
        #constructor
        #body

        #[automatically_derived]
        impl #private::Handler for #ty {
            #call
            #requires
        }
    }
}

/// The names of the generated items. They lie where the user's name lies, but count as the macro's: lints about style and
/// dead code look at the user's own item (the constructor) only.
struct Names {
    ty: Ident,
    body: Ident,
    text: String,
}

impl Names {
    fn of(function: &Ident) -> Self {
        let span = ours_at(function.span());
        let mut ty = function.clone();
        ty.set_span(span);
        Self {
            ty,
            body: Ident::new("body", span),
            text: function.unraw().to_string(),
        }
    }
}

/// A place in the user's code, in tokens that are the macro's.
fn ours_at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

fn handler(function: &Function, names: &Names) -> TokenStream {
    let Function { vis, .. } = function;
    let Names { ty, text, .. } = names;
    let doc = format!(
        "The handler of the subscriber `{text}`; `{text}::body` is the function itself, for unit tests."
    );
    ours! {
        #[doc = #doc]
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy)]
        #vis struct #ty {}
    }
}

fn constructor(private: &TokenStream, args: &Args, function: &Function, names: &Names) -> TokenStream {
    let Function { vis, sig, .. } = function;
    let Names { ty, text, .. } = names;
    let ident = &sig.ident;
    let attrs = function.attrs.iter().filter(|attr| belongs_to_constructor(attr));
    let doc = doc_unless_given(function, &format!("The subscriber `{text}`: mount it."));
    let topic = args.topic.clone().unwrap_or_else(|| parse_quote!(""));
    let name = args
        .option("name")
        .is_none()
        .then(|| ours!(let subscriber = #private::IntoSubscriber::name(subscriber, #text);));
    let (options, values): (Vec<_>, Vec<_>) = args.options.iter().cloned().unzip();
    ours! {
        #doc
        #(#attrs)*
        #vis fn #ident() -> #private::Subscriber<#ty> {
            let subscriber = #private::Subscriber::new(#topic, #ty {});
            #name
            #(let subscriber = #private::IntoSubscriber::#options(subscriber, #values);)*
            subscriber
        }
    }
}

fn body(function: &Function, names: &Names) -> TokenStream {
    let Function {
        attrs,
        vis,
        sig,
        block,
    } = function;
    let Names { ty, body, text } = names;
    let attrs = attrs.iter().filter(|attr| !attr.path().is_ident("deprecated"));
    let doc = doc_unless_given(function, &format!("The function `{text}` as it was written."));
    let mut sig = sig.clone();
    sig.ident = body.clone();
    ours! {
        impl #ty {
            #doc
            #(#attrs)*
            #vis #sig #block
        }
    }
}

fn call(
    private: &TokenStream,
    function: &Function,
    names: &Names,
    arguments: Option<&Arguments>,
) -> TokenStream {
    let steps = arguments.map_or_else(
        || ours!(#private::Outcome::Ack),
        |arguments| steps(private, function, names, arguments),
    );
    let at = ours_at(function.sig.ident.span());
    let future = quote_spanned!(at=> impl ::core::future::Future<Output = #private::Outcome> + ::core::marker::Send + 'm);
    ours! {
        #[inline]
        fn call<'m, __D: #private::Delivery>(
            &'m self,
            delivery: &'m __D,
            cx: #private::Context<'m>,
        ) -> #future {
            async move { #steps }
        }
    }
}

/// Decode, extract, call, outcome.
fn steps(private: &TokenStream, function: &Function, names: &Names, arguments: &Arguments) -> TokenStream {
    let body = &names.body;
    let (decode, payload) = payload(private, &arguments.payload);
    let locals: Vec<_> = (1..=arguments.extractors.len())
        .map(|index| format_ident!("argument{index}", span = Span::mixed_site()))
        .collect();
    let extractors = &arguments.extractors;
    let into_outcome = into_outcome(private, function, arguments.output.as_ref());
    ours! {
        let payload = match #decode(delivery) {
            ::core::result::Result::Ok(value) => value,
            ::core::result::Result::Err(failure) => return #private::Outcome::Failed(failure),
        };
        #(
            let #locals = match <#extractors as #private::FromDelivery<'_>>::from_delivery(delivery, cx) {
                ::core::result::Result::Ok(value) => value,
                ::core::result::Result::Err(failure) => return #private::Outcome::Failed(failure),
            };
        )*
        #into_outcome(Self::#body(#payload #(, #locals)*).await)
    }
}

/// The function that decodes the payload, and the expression that hands it over.
fn payload(private: &TokenStream, payload: &Payload) -> (TokenStream, TokenStream) {
    let decode = match &payload.decode {
        Decode::Json(ty) => ours!(#private::json::<#ty, _>),
        Decode::JsonOrTombstone(ty) => ours!(#private::json_or_tombstone::<#ty, _>),
        Decode::Bytes => ours!(#private::bytes),
        Decode::BytesOrTombstone => ours!(#private::bytes_or_tombstone),
    };
    let argument = match (&payload.decode, payload.lent) {
        (_, false) => ours!(payload),
        (Decode::JsonOrTombstone(_), true) => ours!(::core::option::Option::as_ref(&payload)),
        (_, true) => ours!(&payload),
    };
    (decode, argument)
}

fn into_outcome(private: &TokenStream, function: &Function, output: Option<&Type>) -> TokenStream {
    let Some(output) = output else {
        return quote_spanned!(ours_at(function.sig.output.span())=> #private::IntoOutcome::into_outcome);
    };
    ours!(<#output as #private::IntoOutcome>::into_outcome)
}

fn requires(private: &TokenStream, arguments: &Arguments) -> TokenStream {
    let extractors = &arguments.extractors;
    if extractors.is_empty() {
        return TokenStream::new();
    }
    ours! {
        #[inline]
        fn requires(&self, requirements: &mut #private::Requirements) {
            #(<#extractors as #private::FromDelivery<'_>>::requires(requirements);)*
        }
    }
}

/// What describes the subscriber, and lints that may be about its name, belong to both functions.
fn belongs_to_constructor(attr: &Attribute) -> bool {
    ["doc", "deprecated", "allow", "warn", "deny", "forbid"]
        .iter()
        .any(|name| attr.path().is_ident(name))
}

fn doc_unless_given(function: &Function, text: &str) -> Option<Attribute> {
    let given = function.attrs.iter().any(|attr| attr.path().is_ident("doc"));
    (!given).then(|| parse_quote!(#[doc = #text]))
}
