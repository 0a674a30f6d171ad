"""Media parts of messages: images, audio, video and files, checked before they are passed on."""
