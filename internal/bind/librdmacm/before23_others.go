//go:build !linux

package librdmacm

import "github.com/pureverbs/pureverbs/internal/abi"

func initQPAttr(uintptr, *abi.QPAttr) (mask uint32, known bool, err error) { return 0, false, nil }

func establish(uintptr) (known bool, err error) { return false, nil }

func pardon(uintptr) bool { return false }

// MoveRequests exists on Linux only.
func (l Lib) MoveRequests(uintptr, uintptr) {}
