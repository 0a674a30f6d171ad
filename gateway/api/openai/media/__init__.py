"""Parts of messages that are no text: images, audio, video and files, checked before they are passed on."""
