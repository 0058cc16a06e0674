//go:build linux

package verbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// word is one of the counter's three words.
func (k *clock) word(i int) *uint32 { return (*uint32)(unsafe.Pointer(&k.core[clockOffset+4*i])) }

func clockInfo(page []byte) *uapi.ClockInfo { return (*uapi.ClockInfo)(unsafe.Pointer(&page[0])) }
