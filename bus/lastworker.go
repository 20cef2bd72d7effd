package bus

import (
	"path/filepath"
)

// workerInfo is the content of workFile: the worker that runs inside the node.
type workerInfo struct {
	Name string `json:"name"`
}

// RecordWorker records the name of the worker that runs inside the node. The next node on the data directory then knows
// that this worker has ended (see LastWorker).
func (s *Server) RecordWorker(name string) error {
	return writeSealed(filepath.Join(s.cfg.DataDir, workFile), workerInfo{name})
}

// LastWorker returns the name of the last worker that ran inside a node on the data directory, "" if unknown. Unless this
// node has called RecordWorker, that worker has ended, because only one node runs on a data directory.
func (s *Server) LastWorker() string {
	var info workerInfo
	if readSealed(filepath.Join(s.cfg.DataDir, workFile), &info) != nil {
		return ""
	}
	return info.Name
}
