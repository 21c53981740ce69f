//! What people call the layers of a model.

/// A layer's path in words: `encoder.layers.0.attention` is `encoder layer 1`, `decoder.1.cross_attention` is
/// `decoder layer 2, cross-attention`.
pub(crate) fn layer_name(path: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let number = parts.iter().find_map(|part| part.parse::<usize>().ok()).map(|number| number + 1);
    let side = ["encoder", "decoder"].into_iter().find(|side| parts.contains(side));
    let place = match (side, number) {
        (Some(side), Some(number)) => format!("{side} layer {number}"),
        (Some(side), None) => side.to_string(),
        (None, Some(number)) => format!("layer {number}"),
        (None, None) => String::new(),
    };
    let kind = match parts.last().copied() {
        Some("cross_attention") => "cross-attention",
        Some("pooling") => "pooling",
        Some("attention") if place.is_empty() => "alignment",
        _ if side == Some("decoder") => "self-attention",
        _ => "",
    };
    match (place.is_empty(), kind.is_empty()) {
        (false, false) => format!("{place}, {kind}"),
        (false, true) => place,
        (true, false) => kind.to_string(),
        (true, true) => path.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::layer_name;

    #[test]
    fn paths_in_words() {
        assert_eq!(layer_name("encoder.layers.0.attention"), "encoder layer 1");
        assert_eq!(layer_name("decoder.1.cross_attention"), "decoder layer 2, cross-attention");
        assert_eq!(layer_name("decoder.0.attention"), "decoder layer 1, self-attention");
        assert_eq!(layer_name("body.stack.layers.2.attention"), "layer 3");
        assert_eq!(layer_name("attention"), "alignment");
        assert_eq!(layer_name("pooling"), "pooling");
    }
}
