package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/dma"
)

// explainRegister adds the most likely reason to the error of a registration.
func (d *Device) explainRegister(err error, length int, access AccessFlags) error {
	switch {
	case access&OnDemand != 0 && (unsupported(err) || errors.Is(err, syscall.EINVAL) && !d.pages()): // rxe's EINVAL
		return d.noPaging("registration with OnDemand")
	case errors.Is(err, syscall.ENOMEM):
		cur, limit, lerr := dma.MemlockLimit()
		if lerr == nil {
			return &MemlockError{Bytes: uint64(length), Cur: cur, Max: limit,
				Err: d.usedUp(err, "MRs", d.attr.MaxMR)}
		}
	case errors.Is(err, syscall.EINVAL) && access&^knownAccess != 0:
		return &ArgError{Arg: "access", Got: access.String(),
			Want: fmt.Sprintf("of %v; bits %#x have no meaning", knownAccess&^AccessOptional|RelaxedOrdering,
				uint32(access&^knownAccess))}
	case errors.Is(err, syscall.EINVAL) && access&(RemoteWrite|RemoteAtomic) != 0 && access&LocalWrite == 0:
		return fmt.Errorf("access %v also needs LocalWrite: %w", access, err)
	case errors.Is(err, syscall.EINVAL) && d.attr.MaxMRSize > 0 && uint64(length) > d.attr.MaxMRSize:
		return errors.Join(&LimitError{What: "length", Asked: uint64(length), Limit: d.attr.MaxMRSize,
			Where: "an MR of " + d.Name()}, err)
	case errors.Is(err, syscall.EFAULT):
		return fmt.Errorf("the memory is not mapped, or is read-only while access has LocalWrite: %w", err)
	}
	return err
}
