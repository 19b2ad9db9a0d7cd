//! What the attribute writes: a type of the function's name, its constructor, the function as `body`, and the handler.
//!
//! Who owns a span decides who hears of a lint. rustc ascribes an item to the macro as soon as one end of it is the
//! macro's; lints about style, documentation and dead code then pass over it. So all items are the macro's but the
//! constructor, which stands for the function that the user wrote: "function `bill` is never used" is said once, there.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Type, parse_quote};

use super::args::Args;
use super::signature::{Arguments, Decode, Function, Payload};

/// Tokens of the macro, whose locals the user's expressions cannot see and which do not see the user's.
macro_rules! ours {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site()=> $($tokens)*) };
}

/// Writes the items. Without `arguments`, after an error, the handler does nothing: what uses the subscriber compiles.
pub(super) fn expand(args: &Args, function: &Function, arguments: Option<&Arguments>) -> TokenStream {
    let root = &args.root;
    let private = ours!(#root::__private);
    let names = Names::of(&function.sig.ident);
    let handler = handler(function, &names);
    let constructor = constructor(&private, args, function, &names);
    let body = body(function, &names);
    let call = call(&private, args, function, &names, arguments);
    let requires = arguments.and_then(|arguments| requires(&private, args, arguments));
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

/// The names of the generated items; they lie where the user's name lies.
struct Names {
    ty: Ident,
    body: Ident,
    text: String,
}

impl Names {
    fn of(function: &Ident) -> Self {
        let mut ty = function.clone();
        ty.set_span(ours_at(function.span()));
        Self {
            body: Ident::new("body", ty.span()),
            text: function.unraw().to_string(),
            ty,
        }
    }
}

/// Braces without fields: a name among the types only, so that locals and arguments can be named as the function is.
fn handler(function: &Function, names: &Names) -> TokenStream {
    let vis = all_ours(&function.vis);
    let Names { ty, text, .. } = names;
    let doc = format!(
        "The handler of the subscriber `{text}`. `{text}::body` is the function itself, for unit tests."
    );
    ours! {
        #[doc = #doc]
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy)]
        #vis struct #ty {}
    }
}

fn constructor(private: &TokenStream, args: &Args, function: &Function, names: &Names) -> TokenStream {
    let vis = &function.vis;
    let Names { ty, text, .. } = names;
    let (fn_token, ident) = (&function.sig.fn_token, &function.sig.ident);
    let attrs = function.attrs.iter().filter(|attr| belongs_to_constructor(attr));
    let doc =
        (!function.attrs.iter().any(is_doc)).then(|| format!("The subscriber `{text}`, to be mounted."));
    let doc = doc.map(|doc| ours!(#[doc = #doc]));
    let topic = args.topic.clone().unwrap_or_else(|| parse_quote!(""));
    let named = args.options.iter().any(|(option, _)| option == "name");
    let name = (!named).then(|| ours!(let subscriber = #private::IntoSubscriber::name(subscriber, #text);));
    let (options, values): (Vec<_>, Vec<_>) = args.options.iter().cloned().unzip();
    let steps = ours! {
        let subscriber = #private::Subscriber::new(#topic, #ty {});
        #name
        #(let subscriber = #private::IntoSubscriber::#options(subscriber, #values);)*
        subscriber
    };
    // The user's end of the constructor, see above.
    let mut block = Group::new(Delimiter::Brace, steps);
    block.set_span(ident.span());
    ours! {
        #doc
        #(#attrs)*
        #vis #fn_token #ident() -> #private::Subscriber<#ty> #block
    }
}

fn body(function: &Function, names: &Names) -> TokenStream {
    let Names { ty, body, text } = names;
    let doc = format!("The function `{text}`, as it was written.");
    let attrs = function
        .attrs
        .iter()
        .filter(|attr| !is_doc(attr) && !attr.path().is_ident("deprecated"));
    let vis = all_ours(&function.vis);
    let mut sig = function.sig.clone();
    sig.ident = body.clone();
    sig.fn_token.span = ours_at(sig.fn_token.span);
    if let Some(token) = &mut sig.asyncness {
        token.span = ours_at(token.span);
    }
    let mut block = function.block.clone();
    block.set_span(ours_at(block.span()));
    ours! {
        impl #ty {
            #[doc = #doc]
            #(#attrs)*
            #vis #sig #block
        }
    }
}

fn call(
    private: &TokenStream,
    args: &Args,
    function: &Function,
    names: &Names,
    arguments: Option<&Arguments>,
) -> TokenStream {
    let nothing = || ours!(#private::Outcome::Ack);
    let steps = arguments.map_or_else(nothing, |arguments| {
        steps(private, args, function, names, arguments)
    });
    // The bound lies at the function's name: there, rustc reports a future that is not `Send`.
    let future = quote_spanned! {ours_at(function.sig.ident.span())=>
        impl ::core::future::Future<Output = #private::Outcome> + ::core::marker::Send + 'm
    };
    // `__D`, because type parameters are not hygienic: the user may have a type `D`.
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
fn steps(
    private: &TokenStream,
    args: &Args,
    function: &Function,
    names: &Names,
    arguments: &Arguments,
) -> TokenStream {
    let body = &names.body;
    let (decode, payload) = payload(private, &arguments.payload);
    let extractors = &arguments.extractors;
    let locals =
        (2..extractors.len() + 2).map(|index| format_ident!("argument{index}", span = Span::mixed_site()));
    let locals: Vec<_> = locals.collect();
    let returned = ours!(Self::#body(#payload #(, #locals)*).await);
    let outcome = if args.replies() {
        reply(private, function, &returned)
    } else {
        let into_outcome = into_outcome(private, function, arguments);
        ours!(#into_outcome(#returned))
    };
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
        #outcome
    }
}

/// What the body returned, as a reply. Each step's method is found by the type at hand: see `Returned`. They are so written
/// that an error about them points at the return type.
fn reply(private: &TokenStream, function: &Function, returned: &TokenStream) -> TokenStream {
    let output = ours_at(function.sig.output.span());
    let step = |step: &str, argument: TokenStream| {
        let step = Ident::new(step, output);
        quote_spanned!(output=> #private::Returned(reply).#step(#argument))
    };
    let (result, option) = (
        step("result", TokenStream::new()),
        step("option", TokenStream::new()),
    );
    let (address, encode) = (
        step("address", ours!(&mut record)),
        step("encode", ours!(&mut record)),
    );
    ours! {
        #[allow(unused_imports)]
        use #private::ReplySteps as _;
        let reply = #returned;
        let reply = match #result {
            ::core::result::Result::Ok(reply) => reply,
            ::core::result::Result::Err(failure) => return #private::Outcome::Failed(failure),
        };
        let reply = match #option {
            ::core::option::Option::Some(reply) => reply,
            ::core::option::Option::None => return #private::Outcome::Ack,
        };
        let mut record = #private::reply_record(cx, delivery);
        match #address {
            ::core::option::Option::Some(reply) => {
                if let ::core::result::Result::Err(failure) = #encode {
                    return #private::Outcome::Failed(failure);
                }
            }
            ::core::option::Option::None => #private::no_value(&mut record),
        }
        #private::Outcome::Reply(record)
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

/// The conversion of what the body returned, so written that an error about it points at the return type.
fn into_outcome(private: &TokenStream, function: &Function, arguments: &Arguments) -> TokenStream {
    let inferred = || {
        let output = ours_at(function.sig.output.span());
        quote_spanned!(output=> #private::IntoOutcome::into_outcome)
    };
    let named = |output| ours!(<#output as #private::IntoOutcome>::into_outcome);
    arguments.output.as_ref().map_or_else(inferred, named)
}

fn requires(private: &TokenStream, args: &Args, arguments: &Arguments) -> Option<TokenStream> {
    let extractors: &[Type] = &arguments.extractors;
    let reply = args
        .replies()
        .then(|| ours!(#private::Requirements::reply(requirements);));
    (reply.is_some() || !extractors.is_empty()).then(|| {
        ours! {
            #[inline]
            fn requires(&self, requirements: &mut #private::Requirements) {
                #reply
                #(<#extractors as #private::FromDelivery<'_>>::requires(requirements);)*
            }
        }
    })
}

/// What describes the subscriber goes to the constructor only, lint levels go to both, all else to the body.
fn belongs_to_constructor(attr: &Attribute) -> bool {
    let lint_level = ["allow", "warn", "deny", "forbid"]
        .iter()
        .any(|level| attr.path().is_ident(level));
    lint_level || is_doc(attr) || attr.path().is_ident("deprecated")
}

fn is_doc(attr: &Attribute) -> bool {
    attr.path().is_ident("doc")
}

/// A place in the user's code, for tokens that are the macro's.
fn ours_at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

/// The same tokens in the same places, but the macro's.
fn all_ours(tokens: &impl ToTokens) -> TokenStream {
    let ours = |token: TokenTree| {
        let span = ours_at(token.span());
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), all_ours(&group.stream())).into(),
            token => token,
        };
        token.set_span(span);
        token
    };
    tokens.to_token_stream().into_iter().map(ours).collect()
}
