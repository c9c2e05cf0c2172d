/*
 * The parts of the program `stress`, each as a main().
 */
#ifndef STRESS_STRESS_H
#define STRESS_STRESS_H

int model_main(int argc, char **argv);
int coherence_main(int argc, char **argv);
int lag_main(int argc, char **argv);
int lag_write_main(int argc, char **argv);
int blocks_main(int argc, char **argv);
int append_main(int argc, char **argv);
int files_main(int argc, char **argv);
int time_main(int argc, char **argv);

#endif
