//go:build !amd64 && !arm64

package mmio

import "unsafe"

// Supported reports whether this architecture has the functions of this package.
const Supported = false

// The functions exist so that callers build. Where Supported is false, the direct data path is refused and nothing
// calls them.

func RingSend(_ unsafe.Pointer, _ uint32, _ unsafe.Pointer, _ uint64) {}

func RingSendBlueFlame(_ unsafe.Pointer, _ uint32, _, _ unsafe.Pointer, _ int, _, _ unsafe.Pointer) {}

func Record(_ unsafe.Pointer, _ uint32) {}

func Consumed(_ unsafe.Pointer, _ uint32) {}

func Moved(_ unsafe.Pointer, _ uint32) {}

func ArmCQ(_ unsafe.Pointer, _ uint32, _ unsafe.Pointer, _ uint64) {}

func LoadCQE(_ unsafe.Pointer) uint64 { return ^uint64(0) }

func Loaded() {}
