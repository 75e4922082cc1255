"""Types that bill as another one does: of the provider aws-native, and of earlier versions of aws."""

from __future__ import annotations

EARLIER_NAMES = {"aws:s3/bucketV2:BucketV2": "aws:s3/bucket:Bucket"}  # of version 6 of the provider
COUNTERPARTS = {
    "aws-native:apigateway:RestApi": "aws:apigateway/restApi:RestApi",
    "aws-native:apigatewayv2:Api": "aws:apigatewayv2/api:Api",
    "aws-native:cloudfront:Distribution": "aws:cloudfront/distribution:Distribution",
    "aws-native:cloudwatch:Dashboard": "aws:cloudwatch/dashboard:Dashboard",
    "aws-native:ecr:Repository": "aws:ecr/repository:Repository",
    "aws-native:efs:FileSystem": "aws:efs/fileSystem:FileSystem",
    "aws-native:events:EventBus": "aws:cloudwatch/eventBus:EventBus",
    "aws-native:globalaccelerator:Accelerator": "aws:globalaccelerator/accelerator:Accelerator",
    "aws-native:kinesis:Stream": "aws:kinesis/stream:Stream",
    "aws-native:kms:Key": "aws:kms/key:Key",
    "aws-native:lambda:Function": "aws:lambda/function:Function",
    "aws-native:logs:LogGroup": "aws:cloudwatch/logGroup:LogGroup",
    "aws-native:networkfirewall:Firewall": "aws:networkfirewall/firewall:Firewall",
    "aws-native:route53:HostedZone": "aws:route53/zone:Zone",
    "aws-native:s3:Bucket": "aws:s3/bucket:Bucket",
    "aws-native:secretsmanager:Secret": "aws:secretsmanager/secret:Secret",
    "aws-native:sns:Topic": "aws:sns/topic:Topic",
    "aws-native:sqs:Queue": "aws:sqs/queue:Queue",
    "aws-native:wafv2:WebAcl": "aws:wafv2/webAcl:WebAcl",
}
