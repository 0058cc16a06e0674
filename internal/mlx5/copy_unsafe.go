package mlx5

import "unsafe"

// copyShort copies a few bytes. Calling copy would cost more than the rest of a work request.
func copyShort(to, from unsafe.Pointer, n uintptr) {
	switch {
	case n >= 16:
		copyLong(to, from, n)
	case n >= 8:
		*(*uint64)(to) = *(*uint64)(from)
		*(*uint64)(unsafe.Add(to, n-8)) = *(*uint64)(unsafe.Add(from, n-8))
	default:
		for i := range n {
			*(*byte)(unsafe.Add(to, i)) = *(*byte)(unsafe.Add(from, i))
		}
	}
}

// copyLong is copyShort for 16 bytes or more.
func copyLong(to, from unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n-16; i += 16 {
		*(*[2]uint64)(unsafe.Add(to, i)) = *(*[2]uint64)(unsafe.Add(from, i))
	}
	*(*[2]uint64)(unsafe.Add(to, n-16)) = *(*[2]uint64)(unsafe.Add(from, n-16))
}

// copy16to48 is copyShort for 16 to 48 bytes. It is inlined.
func copy16to48(to, from unsafe.Pointer, n uintptr) {
	*(*[2]uint64)(to) = *(*[2]uint64)(from)
	if n > 32 {
		*(*[2]uint64)(unsafe.Add(to, 16)) = *(*[2]uint64)(unsafe.Add(from, 16))
	}
	*(*[2]uint64)(unsafe.Add(to, n-16)) = *(*[2]uint64)(unsafe.Add(from, n-16))
}

// copyUnder16 is copyShort for 1 to 15 bytes. It is inlined.
func copyUnder16(to, from unsafe.Pointer, n uintptr) {
	if n >= 8 {
		*(*uint64)(to) = *(*uint64)(from)
		*(*uint64)(unsafe.Add(to, n-8)) = *(*uint64)(unsafe.Add(from, n-8))
		return
	}
	for i := range n {
		*(*byte)(unsafe.Add(to, i)) = *(*byte)(unsafe.Add(from, i))
	}
}
