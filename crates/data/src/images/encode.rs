//! Writes pictures as PNG.

use super::{Image, ImageSize};

impl Image {
    /// The picture as a PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        let ImageSize { channels, height, width } = self.size;
        let plane = height * width;
        let pixels: Vec<u8> =
            (0..plane).flat_map(|at| (0..channels).map(move |channel| self.pixels[channel * plane + at])).collect();
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
        encoder.set_color(if channels == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb });
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().expect("a picture has pixels, and memory takes all bytes");
        writer.write_image_data(&pixels).expect("as many values as the size says");
        drop(writer);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_image;
    use std::path::Path;

    #[test]
    fn a_written_picture_is_read_back() {
        for channels in [1, 3] {
            let size = ImageSize { channels, height: 3, width: 5 };
            let pixels = (0..size.values()).map(|at| (at * 17 % 256) as u8).collect();
            let image = Image { size, pixels };
            assert_eq!(decode_image(&image.to_png(), Path::new("a.png"), size).unwrap(), image);
        }
    }
}
