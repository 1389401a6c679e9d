"""Decodes the tokens in the logs of a fleet on the workers of Spark, and prints the contexts that come most often.

    spark-submit spark.py DICTIONARIES LOG…

DICTIONARIES is a folder that each worker can read (`pcce dict --store DICTIONARIES PROGRAM` for each build). The module
`pcce` is installed where the workers run.
"""

import sys

import pcce
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def context(decoder, token):
    try:
        return decoder.decode(token).folded
    except pcce.DecodeError as error:
        return f"not decoded: {error}"


def main(dictionaries, logs):
    spark = SparkSession.builder.appName("contexts").getOrCreate()
    # It goes to the workers by its arguments: each one opens the dictionaries that it needs.
    decoder = pcce.Decoder(dictionaries)

    @F.udf("array<string>")
    def contexts(line):
        return [context(decoder, token) for token in pcce.tokens(line)]

    lines = spark.read.text(logs).select(F.explode(contexts("value")).alias("context"))
    counts = lines.groupBy("context").count()
    for row in counts.orderBy(F.desc("count"), "context").limit(20).collect():
        print(row["count"], row["context"])
    spark.stop()


main(sys.argv[1], sys.argv[2:])
