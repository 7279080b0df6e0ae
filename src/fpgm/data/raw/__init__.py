"""Raw folders of pictures: recognise, match, decode, prepare into a store."""
