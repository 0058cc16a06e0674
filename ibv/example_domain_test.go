package ibv_test

import (
	"log"

	"github.com/pureverbs/pureverbs/ibv"
)

// A goroutine of its own for each QP, with a doorbell register of its own and no lock.
func ExampleDevice_AllocThreadDomain() {
	dev, err := ibv.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	base, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	defer base.Close()

	pd := base
	if td, err := dev.AllocThreadDomain(); err == nil {
		defer td.Close()
		if pd, err = dev.AllocParentDomain(base, td); err != nil {
			log.Fatal(err)
		}
		defer pd.Close()
	}
	cq, err := dev.CreateCQ(256, &ibv.CQOptions{SingleThreaded: true})
	if err != nil {
		log.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{SingleThreaded: true}) // for devices without thread domains
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	path, why := qp.DataPath()
	log.Printf("%v: %s", path, why)
}
