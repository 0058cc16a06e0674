package memory

import "github.com/pureverbs/pureverbs/ibv"

// device is memory inside the RDMA device. Its registration begins at address 0.
type device struct {
	*ibv.DM
}

func allocDevice(pd *ibv.PD, size int) (*device, error) {
	dm, err := pd.Device().AllocDM(size, &ibv.DMOptions{LogAlign: 6})
	if err != nil {
		return nil, err
	}
	return &device{dm}, nil
}

func (d *device) register(pd *ibv.PD, access ibv.AccessFlags) (*ibv.MR, uint64, error) {
	mr, err := pd.RegDM(d.DM, 0, d.Len(), access)
	if err != nil {
		return nil, 0, err
	}
	return mr, mr.Addr(), nil
}

func (d *device) bytes() []byte { return nil }

func (d *device) free() error { return d.Close() }

// CheckPaging returns an error if a device cannot move messages to and from memory on demand: ops are the operations
// of the test, on queue pairs of a type.
func CheckPaging(device string, attr *ibv.DeviceAttr, typ ibv.QPType, ops ibv.ODPOps, implicit bool) error {
	if attr.Ex == nil {
		return nil // it does not report it: registration will
	}
	odp := &attr.Ex.ODP
	need := ibv.ODPSupport
	if implicit {
		need |= ibv.ODPImplicit
	}
	refuse := func(what, have string) error {
		return &ibv.UnsupportedError{Feature: "on-demand paging (--odp, --odp-implicit)", Need: what,
			Have: device + " with " + have + "; leave it out"}
	}
	if odp.General&need != need {
		return refuse("a device that has "+need.String(), odp.General.String())
	}
	have := map[ibv.QPType]ibv.ODPOps{ibv.RC: odp.RC, ibv.UC: odp.UC, ibv.UD: odp.UD, ibv.XRCSend: odp.XRC}[typ]
	if have&ops != ops {
		return refuse("a device whose "+typ.String()+" has "+ops.String(), have.String())
	}
	return nil
}
