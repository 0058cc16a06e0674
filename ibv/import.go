package ibv

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Processes share a device, and objects on it, by passing on the device's descriptor of commands
// and the numbers of the objects:
//
//	f, err := dev.CommandFile()          // one process; it sends f by SCM_RIGHTS, or a child inherits it
//	handles := pd.Handle(), mr.Handle()
//
//	dev, err := ibv.ImportDevice(f)      // the other one
//	pd, err := dev.ImportPD(pdHandle)
//	mr, err := pd.ImportMR(mrHandle, addr)
//
// The kernel's objects exist until their creator closes them, or until no process has the descriptor any more. Close of
// an imported object only forgets it: close the objects that use it first, in all processes. Objects that a process
// makes on an imported device or PD are its own.

// CommandFile returns a duplicate of the device's descriptor of commands, for ImportDevice in
// another process. The caller closes it.
func (d *Device) CommandFile() (*os.File, error) {
	return value(&d.node, "command file", func() (*os.File, error) {
		fd, err := dupDescriptor(d.v.Context(d.handle).CmdFD)
		if err != nil {
			return nil, explainDescriptors(err)
		}
		return os.NewFile(uintptr(fd), "uverbs of "+d.Name()), nil
	})
}

// ImportDevice makes a Device of the descriptor of commands that another process has passed on. It
// keeps a duplicate; cmd stays the caller's. Both data paths work. The device has its own async events.
//
// C: ibv_import_device(3).
func ImportDevice(cmd *os.File) (*Device, error) {
	const op = "import device"
	fail := func(err error) (*Device, error) { return nil, &OpError{Op: op, Err: err} }
	if cmd == nil {
		return fail(&ArgError{Arg: "cmd", Got: "nil", Want: "the file of Device.CommandFile"})
	}
	v, err := firstPath()
	if err != nil {
		return nil, err
	}
	if err := v.checkProviders(); err != nil {
		return fail(err)
	}
	fd, err := dupDescriptor(int(cmd.Fd()))
	if err != nil {
		return fail(explainDescriptors(err))
	}
	h, err := v.ImportDevice(fd)
	if err != nil {
		closeRefused(fd, int(cmd.Fd()))
		return fail(explainImport("device", err))
	}
	d, err := v.wrapContext(h)
	if err != nil {
		return nil, errors.Join(err, v.CloseDevice(h))
	}
	d.noteKey(0, "", true) // the other process has keys that nobody has noted here
	return d, nil
}

// explainImport returns an error with the requirements of an import.
func explainImport(what string, err error) error {
	switch {
	case what == "device" && errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the descriptor is not one of a device's commands: %w", err)
	case what != "device" && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EINVAL)):
		return fmt.Errorf("the handle is not one of a %s of this device, or whoever made it has closed it: %w",
			what, err)
	}
	return explainUnsupported(err, "import of a "+what, "a provider with support for it, such as mlx5",
		"another one; open the device in each process")
}

// Handle returns the kernel's number of the PD, for ImportPD in another process.
func (pd *PD) Handle() uint32 {
	n, _ := value(&pd.node, "pd handle", func() (uint32, error) { return pd.dev.v.PDNumber(pd.handle), nil })
	return n
}

// Handle returns the kernel's number of the MR, for ImportMR in another process.
func (mr *MR) Handle() uint32 {
	n, _ := value(&mr.node, "mr handle", func() (uint32, error) { return mr.pd.dev.v.MR(mr.handle).Number, nil })
	return n
}

// Handle returns the kernel's number of the memory, for ImportDM in another process. Libraries before rdma-core v35 do
// not report it.
func (dm *DM) Handle() (h uint32, err error) {
	return value(&dm.node, "dm handle", func() (h uint32, err error) {
		h, ok := dm.dev.v.DMNumber(dm.handle)
		if !ok {
			err = dm.dev.v.lacks("the handle of a DM", "libibverbs of rdma-core v35 or later", "")
		}
		return h, err
	})
}

// ImportPD makes a PD of the number that PD.Handle returned in another process. Close forgets the
// PD and leaves the kernel's alone.
//
// C: ibv_import_pd(3), ibv_unimport_pd(3).
func (d *Device) ImportPD(handle uint32) (*PD, error) {
	return d.openPD("import pd", d.v.UnimportPD, func() (uintptr, error) {
		h, err := d.v.ImportPD(d.handle, handle)
		return h, explainImport("PD", err)
	})
}

// ImportMR makes an MR of the number that MR.Handle returned in another process; addr is the result of MR.Addr there.
// The device uses the memory of the process that registered it. Bytes returns nil. Close forgets the MR and leaves the
// kernel's alone.
//
// On mlx5, QPs that exist before it refuse it as the target of receives: see RegMemory.
//
// C: ibv_import_mr(3), ibv_unimport_mr(3).
func (pd *PD) ImportMR(handle uint32, addr uint64) (*MR, error) {
	mr := &MR{pd: pd, iova: addr, access: unknownAccess, fixed: "imported", release: pd.dev.v.UnimportMR}
	return mr.open("import mr", func() (uintptr, error) {
		h, err := pd.dev.v.ImportMR(pd.handle, handle)
		if err == nil {
			mr.length = pd.dev.v.MR(h).Length
		}
		return h, explainImport("MR", err)
	})
}

// ImportDM makes a DM of the number that DM.Handle returned in another process; size is the result of DM.Len there.
// Close forgets the DM and leaves the kernel's alone.
//
// C: ibv_import_dm(3), ibv_unimport_dm(3).
func (d *Device) ImportDM(handle uint32, size int) (*DM, error) {
	dm := &DM{object: object{dev: d}, size: size, release: d.v.UnimportDM}
	return dm.open("import dm", func() (uintptr, error) {
		if size < 1 {
			return 0, &ArgError{Arg: "size", Got: fmt.Sprint(size), Want: "at least 1 byte"}
		}
		h, err := d.v.ImportDM(d.handle, handle)
		return h, explainImport("DM", err)
	})
}
