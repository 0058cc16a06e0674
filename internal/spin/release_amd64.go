//go:build !race

package spin

// release is a plain store. Neither x86 nor the compiler moves it before earlier loads and stores.
func release(held *uint32) { *held = 0 }
