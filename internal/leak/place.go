package leak

import "runtime/debug"

// FirstAt is the text of a panic about the place of an earlier release, for objects that Hot records.
func FirstAt(place string) string {
	if place == "" {
		return ""
	}
	return ", first at\n" + place
}

// Here returns the place of the caller, if Hot records it.
func Here() string {
	if !Hot() {
		return ""
	}
	return string(debug.Stack())
}
