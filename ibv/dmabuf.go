package ibv

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/bind"
)

// RegDmabuf registers length bytes at offset off of a dma-buf: memory that another driver, such as
// that of a GPU, has exported as the descriptor fd. The device addresses the first byte by iova,
// which must have the same place in its page as off; iova equal to off is usual. Bytes returns nil.
//
// The descriptor stays the caller's and may be closed at once: the kernel keeps the buffer until
// the MR is closed.
//
// On mlx5 keep short receives into it out of completions: see RegMemory.
//
// C: ibv_reg_dmabuf_mr(3).
func (pd *PD) RegDmabuf(fd int, off uint64, length int, iova uint64, access AccessFlags) (*MR, error) {
	return pd.regDmabuf("register dmabuf", fd, off, length, iova, access, func() (uintptr, error) {
		return pd.dev.v.RegDmabufMR(pd.handle, off, length, iova, fd, uint32(access))
	})
}

// regDmabuf is RegDmabuf with the function that makes the C object.
func (pd *PD) regDmabuf(op string, fd int, off uint64, length int, iova uint64, access AccessFlags,
	reg func() (uintptr, error)) (*MR, error) {
	mr := &MR{pd: pd, length: length, iova: iova, access: access, fixed: "of a dma-buf"}
	return mr.open(op, func() (uintptr, error) {
		page := uint64(os.Getpagesize())
		err := access.checkMemory()
		switch {
		case fd < 0:
			err = &ArgError{Arg: "fd", Got: fmt.Sprint(fd), Want: "an open descriptor"}
		case length < 1:
			err = &ArgError{Arg: "length", Got: fmt.Sprint(length), Want: "at least 1 byte"}
		case off+uint64(length) < off:
			err = &ArgError{Arg: "off", Got: fmt.Sprintf("%#x with %d bytes", off, length), Want: "a range of 64 bits"}
		case off%page != iova%page:
			err = &ArgError{Arg: "iova", Got: fmt.Sprintf("%#x", iova),
				Want: fmt.Sprintf("%#x in its page of %d bytes, as off", off%page, page)}
		}
		if err != nil {
			return 0, err
		}
		h, err := reg()
		return h, pd.dev.explainDmabuf(err, fd)
	})
}

func (d *Device) explainDmabuf(err error, fd int) error {
	switch {
	case errors.Is(err, syscall.EBADF):
		return fmt.Errorf("descriptor %d is not open: %w", fd, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("descriptor %d is not a dma-buf (a memfd or file is none), the range is not within the "+
			"buffer, or access is not of LocalWrite, RemoteWrite, RemoteRead, RemoteAtomic: %w", fd, err)
	}
	return explainUnsupported(err, "registration of a dma-buf",
		"Linux 5.12 and a driver with support for it, such as mlx5",
		d.Name()+" without it; copy the data to memory of PD.AllocMR")
}

// explainUnsupported returns an error with the requirements of a feature: a release of the library, if that lacks the
// function, or else need.
func explainUnsupported(err error, feature, need, have string) error {
	if since, lacks, ok := bind.Missing(err); ok {
		return &UnsupportedError{Feature: feature, Need: since, Have: lacks}
	}
	if unsupported(err) {
		return &UnsupportedError{Feature: feature, Need: need, Have: have}
	}
	return err
}
