package memory

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/internal/cuda"
)

func allocCUDA(size int, opt *plan.Memory) (*gpu, error) {
	open := func() (*cuda.GPU, error) { return cuda.Open(opt.GPU) }
	if opt.BusID != "" {
		open = func() (*cuda.GPU, error) { return cuda.OpenByBusID(opt.BusID) }
	}
	g, err := open()
	if err != nil {
		return nil, err
	}
	return allocGPU(g, size, opt.Dmabuf, opt.DataDirect)
}
