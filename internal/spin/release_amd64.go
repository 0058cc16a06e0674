//go:build !race

package spin

// release is a plain store: x86 keeps all loads and stores before it in their order, and so does the compiler.
func release(held *uint32) { *held = 0 }
