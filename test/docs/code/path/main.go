// Path shows which data path queue pairs use, and why.
package main

import (
	"errors"
	"fmt"
	"log"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	for _, path := range []ibv.DataPath{ibv.DataPathAuto, ibv.DataPathOps} {
		if err := show(path); err != nil {
			log.Fatal(err)
		}
	}
	// doc: path-engine
	engine, err := rdma.NewEngine("", &rdma.EngineOptions{DataPath: ibv.DataPathOps})
	// end
	if err == nil {
		err = engine.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func show(path ibv.DataPath) (err error) {
	dev, err := ibv.Open("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	// doc: path-cq
	cq, err := dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}) // ibv.DataPathAuto, DataPathDirect or DataPathOps
	if err != nil {
		return err
	}
	used, why := cq.DataPath()
	fmt.Printf("%v: %v, because %s\n", path, used, why)
	// end
	return cq.Close()
}
